"""`make demo` in a few seconds: the same stages with hardly any training, and its page in a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import needs_browser, seen_in_browser

from scots import demo
from scots.experiments.pipeline import EPISODES
from scots.experiments.recipe import Recipe

HARDLY = {
    "augment.trajectories": 12,
    "augment.stitching.stitches": 22,
    "augment.stitcher.width": 16,
    "augment.stitcher.depth": 1,
    **{f"{part}.training.steps": 5 for part in ("augment.embedding", "augment.stitcher", "augment.inverse")},
    **{f"{part}.training.steps": 5 for part in ("learner", "controller")},
    "learner.high.width": 16,
    "learner.low.width": 16,
}


pytestmark = [pytest.mark.mujoco, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", "")  # which the demo sets for good: put back afterwards
        patch.setattr(demo, "EPISODES", 30)
        patch.setitem(EPISODES, "laptop", 1)
        recorded = Recipe(None, "hd", "gciql", {path: n for path, n in HARDLY.items() if "augment" not in path})
        alone = {"execution.candidates": 1}  # all plans are bad, and looking for better ones takes long
        stitched = Recipe("official", "hd", "gciql", HARDLY | alone)
        recipes = {"as recorded": recorded, "stitched": stitched}
        patch.setattr(demo, "RECIPES", recipes)
        made = tmp_path_factory.mktemp("demo")
        assert demo.main(made) == 0
        yield made


def test_the_page_tells_what_was_done(folder: Path):
    text = (folder / "report.html").read_text()
    for words in ("Does it help?", "planner trained on the data stitched", "The data before and after", "collect"):
        assert words in text
    assert text.count("<img") >= 5


@needs_browser
def test_the_page_is_whole_in_a_browser(folder: Path):
    assert "<h2>Where the time went</h2>" in seen_in_browser(folder / "report.html", 1200)


def test_a_second_demo_continues_from_what_is_there(folder: Path, monkeypatch: pytest.MonkeyPatch):
    (folder / "report.html").unlink()
    monkeypatch.setattr("scots.models.cache.fit", lambda *_, **__: pytest.fail("trained twice"))
    assert demo.main(folder) == 0
    assert (folder / "report.html").exists()
