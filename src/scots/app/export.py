"""The page as one file that needs no server: answers that are computed now take the place of the server's.

The page looks up the answer whose question is nearest to what is asked, so the same scripts serve both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import permutations, product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from scots.app.explorer import Explorer, States
from scots.app.messages import DistanceRequest, Message, PlanRequest, Point, StitchRequest
from scots.app.server import page_files
from scots.app.session import Session
from scots.core.console import progress
from scots.core.errors import BadInput
from scots.core.files import atomic

_STARTS = 6  # places that walks, distances and plans begin at
_DIRECTIONS = 4  # places that walks are drawn towards
_DRAWS = 2  # drawn directions
_WEIGHTS = (0.0, 2.0, 8.0)  # of novelty, beside the one that the data has
_STITCHES = 40  # of a walk, at most: a shorter one is its beginning

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_Question = TypeVar("_Question", bound=Message)


def write_page(session: Session, path: Path) -> None:
    """Write the page with its answers as one HTML file."""
    page = self_contained(page_files(), {"scene": _plain(session.scene), **_answers(session)})
    with atomic(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def self_contained(files: dict[str, bytes], answers: dict[str, Any]) -> str:
    """The page with its style, scripts and answers inside."""
    text = {name: content.decode("utf-8") for name, content in files.items()}
    page = text["index.html"]
    page = re.sub('<link rel="stylesheet" href="(.+?)">', lambda tag: f"<style>\n{text[tag[1]]}</style>", page)
    scripts = re.findall('<script defer src="(.+?)"></script>\n', page)
    page = re.sub('<script defer src=".+?"></script>\n', "", page)
    inside = json.dumps(answers, separators=(",", ":")).replace("<", "\\u003c")  # no tag can end the block
    blocks = [f'<script type="application/json" id="answers">{inside}</script>']
    blocks += [f"<script>\n{text[name]}</script>" for name in scripts]
    page = page.replace("</body>", "\n".join([*blocks, "</body>"]))
    return page.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{_POLICY}">')


def _plain(message: Message) -> dict[str, Any]:
    return message.model_dump(mode="json")


# ------------------------------------------------------------------------------------------------------------- answers


def _answers(session: Session) -> dict[str, Any]:
    """Questions and their answers, by kind, and all episodes."""
    answers: dict[str, Any] = {"rollouts": [_plain(rollout) for rollout in session.rollouts]}
    if session.states is None:
        return answers
    starts = spread_places(session.states, _STARTS)
    answers["places"] = starts
    distances = [DistanceRequest(start=start) for start in starts]
    answers["distance"] = _answered("distances", distances, session.states.distances)
    if session.explorer:
        walks = list(_walks(session.explorer, starts, spread_places(session.states, _DIRECTIONS)))
        answers["stitch"] = _answered("walks", walks, session.explorer.stitch)
    if session.plans:
        pairs = [PlanRequest(start=start, goal=goal) for start, goal in permutations(starts, 2)]
        answers["plan"] = _answered("plans", pairs, session.plans.plan)
    return answers


def spread_places(states: States, count: int) -> list[Point]:
    """Places far from each other by temporal distance, each the farthest from all before it."""
    latents = states.latents[states.places]
    chosen = [int(np.linalg.norm(latents - latents.mean(axis=0), axis=1).argmax())]
    apart = np.full(len(latents), np.inf)
    while len(chosen) < min(count, len(latents)):
        apart = np.minimum(apart, np.linalg.norm(latents - latents[chosen[-1]], axis=1))
        chosen.append(int(apart.argmax()))
    return [states.point(states.points[states.places[place]]) for place in chosen]


def _walks(explorer: Explorer, starts: list[Point], towards: list[Point]) -> Iterator[StitchRequest]:
    """Walks from every start: towards other places and in drawn directions, by several weights of novelty."""
    weights = sorted({*_WEIGHTS, explorer.config.novelty_weight})
    directions: list[dict[str, Any]] = [{"direction": point} for point in towards]
    directions += [{"draw": draw} for draw in range(_DRAWS)]
    for start, direction, weight in product(starts, directions, weights):
        if direction.get("direction") != start:
            yield StitchRequest(start=start, novelty_weight=weight, stitches=_STITCHES, **direction)


def _answered(label: str, questions: Iterable[_Question], ask: Callable[[_Question], Message]) -> list[dict[str, Any]]:
    """Each question beside its answer; one that has none is left out."""
    questions, answered = list(questions), []
    with progress(label, len(questions), label) as bar:
        for question in questions:
            with suppress(BadInput):  # such as a direction that leads nowhere
                answered.append({"question": _plain(question), "answer": _plain(ask(question))})
            bar.advance()
    return answered
