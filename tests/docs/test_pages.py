"""What the README and the pages of the site show is run: every command and every line of Python, page by page.

Commands are run as they are printed, at `SCOTS_PROFILE=smoke`, on datasets with fewer episodes, and with a mirror on
this machine. The few that are not run are listed here, each with the reason.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro
from pages import GENERATED, PAGES, ROOT, RUN, SHOWN, Block, PythonBlocks, blocks_of
from pictures import frames_of
from tyro.conf import OmitArgPrefixes

from scots.cli import Command, main
from scots.datasets import encoding, load, specs
from scots.datasets.loading import data_path
from scots.datasets.protocols import EncodedScans
from scots.datasets.specs import SPECS
from scots.envs.maze import load_maze
from scots.reporting import plots

NOT_RUN = {
    "make demo": "twenty minutes; test_demo.py runs it with hardly any training",
    "make test": "runs this test",
    "pip install": "installs packages",
    "scots app": "serves a page until it is stopped; tests/app has it served and exported",
}
ELSEWHERE = {
    "docs/own-robot.md": "cli/test_own_robot_page.py makes the logs that it is about",
}
DRY = {"scots table": "hours: only the list of work is made"}
EPISODES = 60  # of every maze dataset
OWN_EPISODES = 10  # in a maze of one's own


def runs(page: str) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in RUN]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str):
    for block in blocks_of(page):
        is_known = block.language in RUN | SHOWN or re.fullmatch(r"\{[\w-]+\}", block.language)
        assert is_known or (page in GENERATED and not block.language), block.text


@pytest.mark.parametrize("page", sorted(GENERATED))
def test_commands_of_generated_pages_are_commands(page: str):
    commands = [words for block in blocks_of(page) for words in block.commands]
    assert len(commands) > 10
    for program, *words in commands:
        if program == "scots":
            tyro.cli(Command, args=words, config=(OmitArgPrefixes,))
        else:
            assert program == "python"
            assert (ROOT / words[0]).exists()


@pytest.fixture(scope="session")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that has the dataset which pages download."""
    folder, states = tmp_path_factory.mktemp("mirror"), 501
    for name in ("antmaze-large-explore-v0", "antmaze-large-explore-v0-val"):
        arrays = {"observations": np.zeros((states, 29), np.float32), "actions": np.zeros((states, 8), np.float32)}
        np.savez(folder / f"{name}.npz", **arrays, terminals=np.arange(states) == states - 1)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def _small(mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder and home, datasets of a few episodes, and one process: starting more would take longest."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(plots, "LATENTS", 60)  # t-SNE takes its time
    homes = {"SCOTS_HOME": str(tmp_path / "home"), "HF_HOME": str(tmp_path / "hugging-face")}
    others = {"SCOTS_PROFILE": "smoke", "SCOTS_MIRRORS": mirror, "no_proxy": "127.0.0.1"}
    for name, value in {**homes, **others}.items():
        monkeypatch.setenv(name, value)
    for spec in list(SPECS.values()):
        if spec.collection is not None:
            collection = spec.collection.resized(EPISODES)
            if isinstance(collection, EncodedScans):
                collection = replace(collection, encoder=encoding.SMOKE)
            monkeypatch.setitem(SPECS, spec.id, replace(spec, collection=collection))
    monkeypatch.setattr(encoding, "SPECS", {})  # workers, which know no smaller datasets, look where no id is needed
    monkeypatch.setitem(specs._SIZES, "stitch", (OWN_EPISODES, 201))


@pytest.mark.slow
@pytest.mark.mujoco
@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("page", [page for page in PAGES if page not in {*GENERATED, *ELSEWHERE} and runs(page)])
def test_what_a_page_shows_runs(page: str, capfd: pytest.CaptureFixture[str]):
    python, printed = PythonBlocks(page), ""
    for block in blocks_of(page):
        if block.title == "output":
            assert block.text in printed
        elif block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            python.run(block.text)
        elif block.language == "sh":
            printed = "".join(run(words, capfd) for words in block.commands)
    LEFT.get(page, lambda names: None)(python.names)


def run(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """Run a command of a page and return what it prints."""
    command = " ".join(words[:2])
    if command in NOT_RUN:
        return ""
    if words[0] == "python":  # a study or a benchmark: test_benchmarks.py runs each of them at a tiny size
        assert (ROOT / words[1]).exists()
        return ""
    program, *arguments = [*words, *(["--dry-run"] if command in DRY and "--dry-run" not in words else [])]
    assert program == "scots", f"{' '.join(words)}: neither run nor listed with a reason"
    capfd.readouterr()
    code, (out, error) = main(arguments), capfd.readouterr()
    assert code == 0, f"{' '.join(words)}: {error}"
    return out


# ------------------------------------------------------------------------------------------- what pages leave behind


def datasets(names: dict[str, Any]) -> None:
    assert len(load("part.npz")) == 20
    assert data_path("antmaze-large-explore-v0").exists()


def own_data(names: dict[str, Any]) -> None:
    assert Path("tracks.png").exists()
    assert "latitude" in Path("aug.csv").read_text().splitlines()[0]


def own_maze(names: dict[str, Any]) -> None:
    maze = Path("my_maze.txt").read_text()
    assert load_maze(Path("my_maze.txt")).tasks == (((1, 1), (3, 6)),)
    assert load("pointmaze-mine-stitch-v0").meta.maze == tuple(maze.split("\n")[:-1])
    assert len(frames_of(Path("rollouts.gif"))) > 1


def navigation(names: dict[str, Any]) -> None:
    assert load("long.npz").meta.dataset == "navigation-corridor-pose-v0"
    assert len(frames_of(Path("rollouts.gif"))) > 1


def readme(names: dict[str, Any]) -> None:
    for picture in ("logs.png", "plan.png"):
        (frame,) = frames_of(Path(picture))
        assert frame.std() > 0


def ecosystem(names: dict[str, Any]) -> None:
    assert names["data"].to_pandas().columns.tolist() == ["episode", "x", "y", "action_0", "action_1"]
    assert names["own"].meta.columns == ("east", "north", "speed")
    assert names["swings"].lengths.tolist() == [51, 51, 51]
    assert len(names["losses"]) == 5
    assert names["policy"].stopped_at is None
    for read in (names["again"], names["same"]):
        assert read.observations.tolist() == names["aug"].observations.tolist()
        assert read.actions.tolist() == names["aug"].actions.tolist()


LEFT: dict[str, Callable[[dict[str, Any]], None]] = {
    "docs/datasets.md": datasets,
    "docs/own-data.md": own_data,
    "README.md": readme,
    "docs/navigation.md": navigation,
    "docs/ecosystem.md": ecosystem,
    "docs/tutorials/2-maze.md": own_maze,
}


# ----------------------------------------------------------------------------------------- what pages must not forget


def test_five_commands_lead_from_logs_to_a_plan():
    text = (ROOT / "README.md").read_text().split("in five commands")[1]
    commands = [line.split()[1] for line in text.split("```")[1].splitlines()[1:]]
    assert commands == ["data", "data", "augment", "train", "plan"]


def test_every_flag_of_tables_is_explained():
    from scots.data.choices import Choices

    page = (ROOT / "docs/own-data.md").read_text()
    for name in Choices.__dataclass_fields__:
        assert f"| `--{name} " in page
