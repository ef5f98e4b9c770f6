"""What the README shows is run: its Python, and every command, one after the other in one folder.

Commands that take minutes or hours are run as they are printed, at `SCOTS_PROFILE=smoke`, on datasets with fewer
episodes, and with a mirror on this machine.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from pictures import frames_of

from scots.cli import main
from scots.datasets import load, specs
from scots.datasets.loading import data_path
from scots.datasets.specs import SPECS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MAZE = re.search(r"```\n(#+\n.*?)```", README, re.DOTALL)[1]
COMMANDS = [line.split("  #")[0].strip() for line in re.findall(r"^scots .*$", README, re.MULTILINE)]
FIVE = re.search(r"in five commands\n\n```\n(.*?)```", README, re.DOTALL)[1].splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/planning.md"])
def test_python_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert snippets
    names: dict[str, object] = {}  # later snippets use what earlier ones made
    for snippet in snippets:
        exec(snippet, names)


def test_the_maze_shown_is_a_maze(tmp_path: Path):
    from scots.envs.maze import load_maze

    (tmp_path / "readme.txt").write_text(MAZE)
    assert load_maze(tmp_path / "readme.txt").tasks == (((1, 1), (3, 6)),)


def test_five_commands_lead_from_logs_to_a_plan():
    assert [line.split()[1] for line in FIVE] == ["data", "data", "augment", "train", "plan"]


@pytest.fixture
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that has the dataset which the README downloads."""
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


@pytest.mark.slow
@pytest.mark.mujoco
def test_every_command_shown_runs_as_printed(
    mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    for name, value in {"HOME": "home", "PROFILE": "smoke", "MIRRORS": mirror}.items():
        monkeypatch.setenv(f"SCOTS_{name}", value)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    giant = SPECS["pointmaze-giant-stitch-v0"]
    monkeypatch.setitem(SPECS, giant.id, replace(giant, collection=giant.collection.resized(150)))
    monkeypatch.setitem(specs._SIZES, "stitch", (10, 201))  # of the own maze
    Path("my_maze.txt").write_text(MAZE)
    page = (ROOT / "docs" / "own-data.md").read_text()
    Path("tracks.csv").write_text(re.search(r"```csv\n(.*?)```", page, re.DOTALL)[1])

    assert len(COMMANDS) >= 20
    for command in COMMANDS:
        assert main(shlex.split(command)[1:]) == 0, f"{command}: {capfd.readouterr().err}"

    for picture in ("logs.png", "plan.png"):
        (frame,) = frames_of(Path(picture))
        assert frame.std() > 0
    assert load("pointmaze-mine-stitch-v0").meta.maze == tuple(MAZE.split("\n")[:-1])
    assert data_path("antmaze-large-explore-v0").exists()
    assert len(load("part.npz")) == 100
