"""The words of a report and what they mean: on the page they explain themselves where they stand."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from html import escape

GLOSSARY = {
    "augmented": "Made from the recorded data: long trajectories that were stitched from its segments.",
    "original": "The data as it was recorded, before augmentation.",
    "segment": "A short piece of a recorded episode, 26 states in the benchmark. Trajectories are stitched from them.",
    "join": "A step of a stitched trajectory from the end of one segment to the beginning of the next.",
    "refinement": "The states around a join are made again by a diffusion model, so that the step across it is one "
    "that the data could have taken.",
    "off the data": "Farther from every recorded path than nearly all held-out recorded states are.",
    "held-out": "Recorded episodes that were left out and then compared with the others: what chance alone explains.",
    "fine cells": "A grid with eight by eight parts to each cell of the maze, or of a grid over the positions.",
    "equal numbers": "Both datasets give as many states, so that more data alone does not cover more.",
    "Dynamic MSE": "Squared distance between the next state and where the simulator gets by the action. 0: the step is "
    "one that the environment makes.",
    "labelled actions": "Actions that the inverse dynamics model gives to steps that have none of their own.",
    "inverse dynamics": "A model of the action that leads from one state to the next, learned from the recorded data.",
    "reach": "Length of the path from the start of a trajectory to the farthest cell that it visits.",
    "recall": "Share of recorded states that have augmented states nearby: what was not lost.",
    "precision": "Share of augmented states that have recorded states nearby: what was not made up.",
    "one-step units": "Each column is measured in its median change in one step.",
    "KS": "Kolmogorov-Smirnov statistic: the largest difference of two distribution functions, from 0 (equal) to 1.",
    "Wasserstein": "How far, on average, values of one distribution have to move to become those of the other.",
    "latent": "A state as the learned embedding sees it: distances between latents are numbers of steps.",
    "entropy": "How evenly states are spread over cells: the most is reached when all cells have equally many.",
    "novelty weight": "How much a stitch is drawn to places that its trajectory has not visited.",
    "rank correlation": "1 if the farther of two states is always the farther one for the embedding, too.",
    "planner": "Draws where to go from a start to a goal. Agents follow its plans.",
    "agent": "Chooses the action at every step.",
    "profile": "The scale of a run: smoke (seconds), laptop (two cores), paper (the paper's own). Custom: some "
    "settings differ from it.",
    "fingerprint": "A short hash of all settings: two runs with the same one were made alike.",
}
"""Term -> meaning, in a sentence or two. Plurals are found too."""

_FORMS = {form.lower(): term for term in GLOSSARY for form in (term, f"{term}s")}
_ANY = "|".join(map(re.escape, sorted(_FORMS, key=len, reverse=True)))
_TERMS = re.compile(rf"(?<![\w.=-])({_ANY})(?![\w=-]|\.\w)", re.IGNORECASE)  # not in the names of settings and files
_PLAIN = ("code", "title", "button")  # elements whose text is left as it is


def explain_terms(html: str) -> tuple[str, set[str]]:
    """HTML with the first occurrence of every term explained where it stands, and the terms that were found."""
    found: set[str] = set()

    def explained(match: re.Match[str]) -> str:
        term = _FORMS[match[0].lower()]
        if term in found:
            return match[0]
        found.add(term)
        meaning = f'<span class="meaning" role="tooltip">{escape(GLOSSARY[term])}</span>'
        return f'<span class="term" tabindex="0">{match[0]}{meaning}</span>'

    parts, inside = re.split("(<[^>]*>)", html), ""  # text, tag, text, ...: all text is escaped
    for number, part in enumerate(parts):
        if number % 2:
            name = part.strip("</>").split()[0]
            inside = name if name in _PLAIN and not part.startswith("</") else "" if name == inside else inside
        elif not inside:
            parts[number] = _TERMS.sub(explained, part)
    return "".join(parts), found


def glossary_html(terms: AbstractSet[str]) -> str:
    """All of these terms with their meanings, folded away."""
    if not terms:
        return ""
    pairs = (
        f"<div><dt>{escape(term)}</dt><dd>{escape(GLOSSARY[term])}</dd></div>" for term in sorted(terms, key=str.lower)
    )
    return f"<section>\n<details><summary>Glossary</summary>\n<dl>{''.join(pairs)}</dl></details>\n</section>\n"
