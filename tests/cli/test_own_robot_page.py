"""What docs/own-robot.md shows is run, on the drives of a robot in a round room."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from scots.cli import main
from scots.data import formats
from scots.data.scans import encoding_step

PAGE = (Path(__file__).parents[2] / "docs" / "own-robot.md").read_text()
COMMANDS = [line.split() for line in re.findall(r"^scots (.*)$", PAGE, re.MULTILINE)]
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
RAYS, RADIUS = 36, 6.0


def messages(rng: np.random.Generator) -> list[tuple]:
    """A drive around the middle of a room of six metres, as ROS would tell it; every tenth ray meets nothing."""
    angle, drive = rng.uniform(-3, 3), []
    for step in range(40):
        angle += 0.05
        x, y, yaw = 3 * math.cos(angle), 3 * math.sin(angle), angle + math.pi / 2
        directions = yaw - math.pi + 2 * math.pi / RAYS * np.arange(RAYS)
        ahead = x * np.cos(directions) + y * np.sin(directions)
        ranges = -ahead + np.sqrt(ahead**2 + RADIUS**2 - 9)
        ranges[::10] = np.inf
        orientation = SimpleNamespace(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
        pose = SimpleNamespace(position=SimpleNamespace(x=x, y=y), orientation=orientation)
        command = SimpleNamespace(linear=SimpleNamespace(x=0.75), angular=SimpleNamespace(z=0.25))
        drive.append((step / 5, SimpleNamespace(ranges=ranges), pose, command))
    return drive


@pytest.fixture
def _drives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table that the page's own functions write."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCOTS_PROFILE", "smoke")
    names: dict = {}
    exec(SNIPPETS[0], names)
    rng = np.random.default_rng(0)
    drives = [(str(number), message) for number in range(12) for message in messages(rng)]
    names["write"]([names["row"](drive, *message, 1.0, 0.5) for drive, message in drives], "drives.parquet")


@pytest.mark.slow
@pytest.mark.usefixtures("_drives")
def test_logs_become_a_policy_that_acts():
    for command in COMMANDS:
        assert main(command) == 0, command
    states = formats.read(Path("robot.npz"))
    assert (len(states), states.observations.shape[1]) == (12, 8 + 3)
    assert states.meta.columns[-3:] == ("x", "y", "yaw")
    assert states.meta.angles[0][0] == 10
    assert np.allclose(states.actions, [0.5, 0.5])
    np.testing.assert_allclose(np.linalg.norm(states.positions, axis=1), 3, atol=1e-4)
    narrow = formats.read(Path("front.npz"))
    assert encoding_step(narrow.meta)["config"]["geometry"]["first_angle"] == -2.356
    names: dict = {}
    exec(SNIPPETS[1], names)
    action = names["command"](np.full(RAYS, 3.0), (0, 3, 0), np.full(RAYS, 2.0), (3, 0, 1))
    assert action.shape == (2,)
    assert np.abs(action).max() <= 1


@pytest.mark.usefixtures("_drives")
def test_what_is_wrong_with_logs_is_said_in_one_line(capsys: pytest.CaptureFixture[str]):
    for words, complaint in (
        (["--scan", "laser"], "'laser': found 0 columns laser_0"),
        (["--keep", "x,z"], "no column 'z' to keep; beside the scan there are x, y, yaw, speed, turn"),
        (["--set", "beta=0"], "latent and beta must be positive"),
        (["--set", "geometry.pixel=-1"], "pixel must be positive"),
    ):
        assert main(["data", "encode", "drives.parquet", "robot.npz", *words]) == 2
        message = capsys.readouterr().err
        assert complaint in message
        assert not Path("robot.npz").exists()
