"""The page in a real browser: clicks, drags, sliders, keys and fingers, with a server and without."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from app_run import Run, without
from browser import needs_browser
from devtools import Tab, chromium

from scots.app.export import self_contained, spread_places, write_page
from scots.app.messages import StitchRequest
from scots.app.server import page_files
from scots.app.session import Session
from scots.cli import main

pytestmark = [needs_browser, pytest.mark.slow]
STATUS = "document.getElementById('status').textContent"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def page(tab: Tab, address: tuple[str, int]) -> Iterator[str]:
    """The address of the page; it must not have complained when the test ends, nor asked anybody else."""
    tab.complaints.clear()
    tab.requests.clear()
    own = f"http://{address[0]}:{address[1]}/"
    yield own
    assert tab.complaints == []
    assert {request for request in tab.requests if not request.startswith((own, "data:"))} == set()


def ready(tab: Tab, words: str) -> None:
    tab.wait(f"{STATUS}.includes({json.dumps(words)})")


def pixel(tab: Tab, point: tuple[float, float]) -> tuple[float, float]:
    """Where a point of the data is in the window."""
    x, y = tab.value(
        "(() => { const map = document.getElementById('map'); map.scrollIntoView({ block: 'center' });"
        " const box = map.getBoundingClientRect();"
        f" const [left, top] = page.map.toPixels({list(point)}); return [box.x + left, box.y + top] }})()"
    )
    return x, y


def is_drawn(tab: Tab) -> bool:
    """Whether the map has colours on it: text, walls and states are grey."""
    return tab.value(
        "(() => { const map = document.getElementById('map');"
        " const data = map.getContext('2d').getImageData(0, 0, map.width, map.height).data; let coloured = 0;"
        " for (let n = 0; n < data.length; n += 4)"
        " coloured += Math.max(data[n], data[n+1], data[n+2]) - Math.min(data[n], data[n+1], data[n+2]) > 60;"
        " return coloured > 200 })()"
    )


def test_a_click_shows_distances(tab: Tab, page: str):
    tab.open(page, 1200)
    ready(tab, "the farthest place is")
    first_paint = "performance.getEntriesByName('first-contentful-paint')"
    tab.wait(f"{first_paint}.length > 0")  # the browser reports it after the frame, which may be later than the answer
    paint = tab.value(f"{first_paint}[0].startTime")
    print(f"first paint after {paint:.0f} ms")
    before = tab.value(STATUS)
    tab.click(*pixel(tab, (7.0, 1.0)))
    tab.wait(f"{STATUS} !== {json.dumps(before)}")
    ready(tab, "From the recorded state (7, 1)")
    assert is_drawn(tab)


def test_a_trajectory_is_stitched_by_click_drag_and_slider(tab: Tab, page: str, tmp_path: Path):
    tab.open(page, 1200)
    ready(tab, "farthest")
    tab.click_on("#tab-stitch")
    ready(tab, "Stitch 6, in random direction 0")
    tab.click_on("input[value=direction]")
    tab.click(*pixel(tab, (7.0, 1.0)))
    ready(tab, "towards the mark")
    tab.drag(pixel(tab, (7.0, 1.0)), pixel(tab, (1.0, 1.0)))
    tab.wait("JSON.stringify(page.tabs.stitch.answer.towards) === '[1,1]'")
    tab.drag(tab.middle("#stitches"), tuple(a + b for a, b in zip(tab.middle("#stitches"), (60, 0), strict=True)))
    tab.wait("Number(document.getElementById('stitches').value) > 40")
    tab.wait("page.tabs.stitch.answer.stitches.length === Number(document.getElementById('stitches').value)")
    tab.value("document.getElementById('weight').focus()")
    tab.press("ArrowRight")
    assert tab.value("document.getElementById('weight-shown').textContent") == "2.5"
    tab.wait("document.querySelector('#candidates caption').textContent.includes('progress + 2.5')")
    assert tab.value("document.querySelectorAll('#candidates tbody tr').length") == 10
    assert tab.value("document.querySelectorAll('#candidates tr.taken').length") == 1
    tab.click_on("#stitch-back")
    shown = tab.value("page.tabs.stitch.shown")
    assert shown == tab.value("page.tabs.stitch.answer.stitches.length") - 1
    tab.click_on("#stitch-play")
    tab.wait(f"page.tabs.stitch.shown === {shown + 1} && !page.tabs.stitch.player.timer")
    assert is_drawn(tab)
    assert tab.screenshot(tmp_path / "stitch.png").stat().st_size > 10_000


def test_plans_are_drawn_between_what_is_clicked(tab: Tab, page: str):
    tab.open(page + "#plan", 1200)
    ready(tab, "The cheapest of 4 plans")
    tab.click(*pixel(tab, (3.0, 5.0)))
    tab.click(*pixel(tab, (7.0, 1.0)))
    tab.wait("!page.tabs.plan.question.busy")
    ends = "[page.tabs.plan.answer.path[0], page.tabs.plan.answer.path.at(-1)]"
    assert tab.value(ends)[0] == pytest.approx([3, 5], abs=0.1)
    assert tab.value(ends)[1] == pytest.approx([7, 1], abs=0.1)
    assert tab.value("document.querySelectorAll('#plans tbody tr').length") == 4
    assert float(tab.value("document.querySelector('#plan-facts dd').textContent")) > 0
    assert is_drawn(tab)


def test_an_episode_is_scrubbed_and_played(tab: Tab, page: str):
    tab.open(page + "#watch", 1200)
    ready(tab, "task 1: reached in 19 steps")
    assert tab.value("document.querySelector('#watch-facts').textContent").endswith("plans made2")
    tab.value("document.getElementById('step').focus()")
    tab.press("ArrowLeft", 12)
    assert tab.value("document.getElementById('step-shown').textContent") == "7 of 19"
    assert tab.value("document.querySelector('#watch-facts').textContent").endswith("plans made1")
    tab.click_on("#watch-play")
    tab.wait("document.getElementById('step-shown').textContent === '19 of 19'")


def test_everything_by_keyboard(tab: Tab, page: str):
    tab.open(page, 1200)
    ready(tab, "farthest")
    tab.press("Tab")
    assert tab.value("document.activeElement.id") == "map"
    before = tab.value(STATUS)
    tab.press("ArrowRight", 8)
    tab.press("Enter")
    tab.wait(f"{STATUS} !== {json.dumps(before)}")
    scale = tab.value("page.map.scale")
    tab.press("+")
    assert tab.value("page.map.scale") == pytest.approx(1.25 * scale)
    tab.press("0")
    assert tab.value("page.map.scale") == pytest.approx(scale)
    tab.press("Tab")
    assert tab.value("document.activeElement.id") == "tab-distance"
    tab.press("ArrowRight")
    assert tab.value("document.activeElement.id") == "tab-stitch"
    ready(tab, "Stitch 6")
    assert tab.value("document.querySelector('[role=tabpanel]:not([hidden])').id") == "stitch"


def test_a_phone_shows_all_and_a_finger_picks(tab: Tab, page: str):
    tab.open(page, 400, 800, touch=True)
    ready(tab, "farthest")
    for name in ("distance", "stitch", "plan", "watch"):
        tab.tap_until(f"!document.getElementById('{name}').hidden", partial(tab.middle, f"#tab-{name}"))
        tab.wait(f"!page.tabs.{name}.question?.busy")  # nothing moves now
        assert tab.sideways() == 0
        small = "[...document.querySelectorAll('button')].filter(b => b.offsetWidth && b.offsetHeight < 36).length"
        assert tab.value(small) == 0
    tab.tap_until("!document.getElementById('distance').hidden", partial(tab.middle, "#tab-distance"))
    tab.tap_until(f"{STATUS}.includes('From the recorded state (1, 1)')", partial(pixel, tab, (1.0, 1.0)))


def test_an_answer_that_comes_late_stays_in_its_tab(tab: Tab, page: str):
    tab.open(page, 1200)
    ready(tab, "farthest")
    tab.value("answered = ask, ask = async (...q) => (await new Promise((go) => { release = go }), answered(...q)); 0")
    tab.click_on("#tab-plan")
    ready(tab, "Planning")
    tab.click_on("#tab-distance")
    ready(tab, "farthest")
    tab.value("release()")
    tab.wait("page.tabs.plan.answer && !page.tabs.plan.question.busy")
    assert "farthest" in tab.value(STATUS)
    tab.click_on("#tab-plan")
    ready(tab, "The cheapest of 4 plans")


def test_what_is_missing_says_how_to_make_it(tab: Tab, session: Session, tmp_path: Path):
    write_page(without(session, "plan"), tmp_path / "page.html")
    tab.open((tmp_path / "page.html").as_uri() + "#plan", 1200)
    ready(tab, "Not here yet. First run scots doctor")


def test_walks_and_plans_are_quick(tab: Tab, page: str):
    """In milliseconds as the page waits for them; `benchmarks/app.py` says how many there are on an idle machine."""
    tab.open(page, 1200)
    ready(tab, "farthest")
    waited = {}
    for kind, question in {
        "stitch": {"start": [3, 5], "direction": [7, 1], "stitches": 40},
        "plan": {"start": [3, 5], "goal": [7, 1]},
    }.items():
        times = tab.value(
            f"(async () => {{ const times = []; for (let n = 0; n < 10; n += 1) {{ const begun = performance.now();"
            f" await ask('{kind}', {json.dumps(question)}); times.push(performance.now() - begun) }} return times }})()"
        )
        waited[kind] = sorted(times)[-1]
        print(f"{kind}: slowest of 10 {waited[kind]:.0f} ms")
    assert waited["stitch"] < 3000  # ten times what is promised: other tests share the machine
    assert waited["plan"] < 20_000


# ------------------------------------------------------------------------------------------------------ without server


def test_an_exported_page_needs_no_server(tab: Tab, session: Session, run: Run, tmp_path: Path):
    path = tmp_path / "page.html"
    assert main(["app", str(run.planner), "--export", str(path)]) == 0
    assert path.stat().st_size < 10_000_000
    tab.complaints.clear()
    tab.requests.clear()
    tab.open(path.as_uri(), 400)
    ready(tab, "farthest")
    tab.click_on("#tab-stitch")
    ready(tab, "Stitch 6")
    start = spread_places(session.states, 1)[0]
    expected = session.explorer.stitch(StitchRequest(start=start, stitches=6))
    assert tab.value("page.tabs.stitch.answer") == expected.model_dump(mode="json")
    tab.value("document.getElementById('weight').focus()")
    tab.press("ArrowRight", 12)
    tab.wait("page.tabs.stitch.answer.stitches.length === 6")
    tab.click_on("#tab-plan")
    ready(tab, "The cheapest of")
    tab.click_on("#tab-watch")
    ready(tab, "task 1")
    time.sleep(0.2)
    assert tab.sideways() == 0
    assert tab.complaints == []
    assert {request for request in tab.requests if not request.startswith(("file:", "data:"))} == set()


def test_hostile_names_stay_text_in_an_exported_page(tab: Tab, tmp_path: Path, session: Session):
    hostile = "</script><img src=x onerror=alert(1)>`<b>"
    scene = session.scene.model_copy(
        update={"title": hostile, "missing": dict.fromkeys(("distance", "stitch", "plan"), hostile)}
    )
    page = self_contained(page_files(), {"scene": scene.model_dump(mode="json"), "rollouts": []})
    (tmp_path / "page.html").write_text(page)
    tab.complaints.clear()
    tab.open((tmp_path / "page.html").as_uri() + "#plan", 1200)
    ready(tab, "Not here yet")
    assert tab.value("document.getElementById('title').textContent") == hostile
    assert tab.value("document.querySelectorAll('img, b').length") == 0
    assert tab.complaints == []
