"""What each kind of run or dataset offers, and the command for what it does not."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tyro
from app_run import QUICK, Run, rollout_of

from scots.app.run_folder import RunFolder
from scots.app.session import ROLLOUTS
from scots.cli import Command, main
from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories
from scots.reporting.rollout_file import load_rollouts, save_rollouts


def parse(commands: str) -> None:
    """Fail unless the command line knows every command and option in the line."""
    for command in commands.split(" && "):
        program, *words = shlex.split(command)
        assert program == "scots"
        tyro.cli(Command, args=words, config=(tyro.conf.OmitArgPrefixes,))


def test_recorded_data_without_an_embedding_shows_its_states_and_the_commands(run: Run):
    found = run.open(run.recorded)
    assert (found.states, found.explorer, found.plans) == (None, None, None)
    assert found.scene.missing["stitch"] == f"scots app {run.recorded} --prepare"
    assert set(found.scene.missing) == {"distance", "stitch", "plan"}
    for command in found.scene.missing.values():
        parse(command)
    assert found.scene.facts == ["80 recorded episodes, 2,640 states"]
    assert set(map(tuple, found.scene.states)) <= set(map(tuple, run.data.positions.tolist()))
    assert np.array_equal(found.rollouts[0].path, run.data.positions[:33])
    assert len(found.rollouts) == 24


@pytest.mark.slow
def test_prepared_data_can_be_stitched(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path))
    first = run.open(run.recorded, prepare=True)
    assert first.explorer is not None
    assert first.scene.missing.keys() == {"plan"}
    assert run.open(run.recorded).explorer is not None  # the cache has it now


def test_stitched_data_has_the_segments_it_was_made_from(run: Run):
    found = run.open(run.augmented)
    assert found.explorer.config.segment == QUICK["stitching.segment"]
    assert np.array_equal(found.states.points, run.data.positions)
    assert found.scene.facts[0] == "4 stitched trajectories, 196 states"
    assert "stitched trajectory 0" in found.scene.rollouts[0]
    assert found.scene.missing == {
        "plan": f"scots train hd --data {run.augmented} --recorded toy-corridor-stitch-v0 --out planner "
        "&& scots app planner"
    }


def test_a_planner_has_everything(run: Run):
    found = run.open(run.planner)
    assert found.scene.missing == {}
    assert found.scene.rollouts == ["task 1: reached in 19 steps"]
    assert found.rollouts[0].plans[1].step == 10
    assert found.scene.facts == ["2,000 segments of 9 states", "planner hd, profile smoke"]


def test_a_planner_without_the_cache_still_plans(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path))
    found = run.open(run.planner)
    assert found.scene.missing == {"stitch": "scots app toy-corridor-stitch-v0 --prepare"}
    assert found.states is not None


def test_a_run_folder_names_its_parts_and_nothing_outside_is_read(run: Run, tmp_path: Path):
    folder = run.home.parent
    inside = RunFolder(home="home", data="aug.npz", planner="planner", rollouts=f"planner/{ROLLOUTS}")
    inside.save(folder)
    found = run.open(folder)
    (folder / "run.json").unlink()
    assert found.scene.missing == {}
    for name in ("home", "data", "planner", "rollouts"):
        for path in ("../outside", "/etc/passwd"):
            replace(inside, **{name: path}).save(tmp_path)
            with pytest.raises(BadInput, match=f"{name} '{path}' lies outside the folder"):
                run.open(tmp_path)
    (tmp_path / "link").symlink_to("/etc")
    replace(inside, data="link/passwd").save(tmp_path)
    with pytest.raises(BadInput, match="lies outside"):
        run.open(tmp_path)
    (tmp_path / "run.json").write_text("[1")
    with pytest.raises(BadInput, match="does not describe a run"):
        run.open(tmp_path)


def test_data_of_one_position_column_is_refused(run: Run, tmp_path: Path):
    Trajectories(np.zeros((9, 1)), [0, 9], meta=Meta(columns=("x",), position=(0,))).save(tmp_path / "one.npz")
    with pytest.raises(BadInput, match="two position columns, found 1"):
        run.open(tmp_path / "one.npz")


def test_rollouts_are_read_back_and_other_files_are_named(run: Run, tmp_path: Path):
    save_rollouts([rollout_of(run.data)], run.data.meta, tmp_path / "rollouts.json")
    [found] = load_rollouts(tmp_path / "rollouts.json")
    assert np.allclose(found.positions, run.data.positions[:20])
    assert found.goal == tuple(run.data.positions[19].tolist())
    assert [plan.step for plan in found.plans] == [0, 10]
    (tmp_path / "other.json").write_text('{"rollouts": [1]}')
    with pytest.raises(BadInput, match="not a file of `scots evaluate --rollouts`"):
        load_rollouts(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["no-such-data"], "no such dataset id, file or folder"),
        (["toy-corridor-stitch-v0", "--host", "0.0.0.0"], "name the address"),
        (["toy-corridor-stitch-v0", "--port", "70000"], "--port 70000: expected 0 to 65535"),
        (["toy-corridor-stitch-v0", "--export", "/dev/null/page.html"], "cannot write"),
    ],
)
def test_bad_input_is_one_line(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    assert main(["app", *words]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("scots: ")]
    assert complaint in line
