"""`make demo` in a few seconds: the same stages with hardly any training, and its page in a browser."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import needs_browser, seen_in_browser, without_terms
from pictures import frames_of, share_drawn

from scots import demo, figures
from scots.app.messages import PlanRequest
from scots.app.session import Options, open_session
from scots.experiments.pipeline import EPISODES
from scots.experiments.recipe import Recipe
from scots.reporting import plots

HARDLY = {
    "augmenter.trajectories": 12,
    "augmenter.stitching.stitches": 22,
    "augmenter.stitcher.width": 16,
    "augmenter.stitcher.depth": 1,
    **{f"augmenter.{part}.training.steps": 5 for part in ("embedding", "stitcher", "inverse")},
    **{f"{part}.training.steps": 5 for part in ("planner", "agent")},
    **{f"planner.{level}.width": 16 for level in ("high", "middle", "low")},
}
OWN_LOGS = {"trajectories": 4, "embedding.training.steps": 5, "stitcher.training.steps": 5}
ALONE = {"search.candidates": 1, "search.mend": False, "search.bisect": False}
"""All plans are bad, and looking for better ones takes long."""


pytestmark = [pytest.mark.mujoco, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", "")  # which the demo sets for good: put back afterwards
        patch.setattr(demo, "_COLLECTION", demo._COLLECTION.resized(30))
        patch.setitem(EPISODES, "laptop", 1)
        patch.setattr(plots, "LATENTS", 60)  # t-SNE takes its time
        own = {path: value for path, value in HARDLY.items() if not path.startswith("augmenter")}
        recipes = {
            "as recorded": Recipe(None, "hd", "gciql", own),
            "stitched": Recipe("scots", "hd", "gciql", HARDLY | ALONE),
        }
        patch.setattr(demo, "RECIPES", recipes)
        patch.setattr(demo, "_TRACKS", 12)
        patch.setattr(demo, "_SHORT_TRACKS", demo._SHORT_TRACKS | OWN_LOGS)
        patch.setattr(demo, "_TRACK_STEPS", 5)
        made = tmp_path_factory.mktemp("demo")
        assert demo.main(made) == 0
        yield made


def test_the_page_tells_what_was_done(folder: Path):
    text = without_terms((folder / "report.html").read_text())
    for words in (
        "Does it help?",
        "planner trained on the data stitched",
        "The data before and after",
        "collect",
        "Own logs",
    ):
        assert words in text
    assert text.count("<img") >= 5
    times = text.split("Where the time went")[1]
    for stage in ("collect", "agent", "evaluate"):
        assert len(re.findall(rf'<tr><th scope="row">{stage}</th>(<td[^>]*>\d+:\d\d</td>){{2}}</tr>', times)) == 1
    for stage in ("augment", "planner"):
        assert re.search(rf'<tr><th scope="row">{stage}</th>.*<td[^>]*>\d+:\d\d</td></tr>', times)


def test_the_run_can_be_played_with(folder: Path):
    session = open_session(str(folder), Options())
    assert session.scene.missing == {}
    assert [label.split(":")[0] for label in session.scene.rollouts] == [f"task {n}" for n in range(1, 6)]
    assert session.scene.walls is not None
    start = session.scene.states[0]
    assert session.plans.plan(PlanRequest(start=start, goal=session.scene.states[-1], candidates=1)).path[0] == start


@needs_browser
def test_the_page_is_whole_in_a_browser(folder: Path):
    assert "<h2>Where the time went</h2>" in seen_in_browser(folder / "report.html", 1200)


def test_a_second_demo_continues_from_what_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "report.html").unlink()
    monkeypatch.setattr("scots.models.cache.fit", lambda *_, **__: pytest.fail("trained twice"))
    assert demo.main(folder) == 0
    assert (folder / "report.html").exists()


def test_the_pictures_of_the_readme_are_drawn_by_its_models(folder: Path, tmp_path: Path):
    assert figures.main(folder, tmp_path) == 0
    moving = frames_of(tmp_path / "scots.gif")
    assert len(moving) > 60
    assert (tmp_path / "scots.gif").stat().st_size < 2_000_000
    for name in ("recorded", "stitched-trajectory", "walked"):
        (still,) = frames_of(tmp_path / f"{name}.png")
        assert share_drawn(still) > 0.005
