"""`make demo` in a few seconds: the same stages with hardly any training, and its page in a browser."""

from pathlib import Path

import pytest
from browser import CHROMIUM, seen_in_browser

from scots import demo
from scots.experiments import EPISODES
from scots.recipes import Recipe

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


@pytest.mark.mujoco
@pytest.mark.slow
def test_the_demo_runs_to_its_page_and_again_from_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(demo, "EPISODES", 30)
    monkeypatch.setitem(EPISODES, "laptop", 1)
    monkeypatch.setattr(
        demo,
        "RECIPES",
        {
            "as recorded": Recipe(None, "hd", "gciql", {k: v for k, v in HARDLY.items() if "augment" not in k}),
            "stitched": Recipe("official", "hd", "gciql", HARDLY),
        },
    )
    assert demo.main(tmp_path) == 0
    page = tmp_path / "report.html"
    text = page.read_text()
    for words in ("Does it help?", "planner trained on the data stitched", "The data before and after", "collect"):
        assert words in text
    assert text.count("<img") >= 5
    if CHROMIUM:
        assert "<h2>Where the time went</h2>" in seen_in_browser(page, 1200)
    page.unlink()
    monkeypatch.setattr("scots.artifacts.fit", lambda *_, **__: pytest.fail("trained twice"))
    assert demo.main(tmp_path) == 0
    assert page.exists()
