"""`scots plan`: from an own log to a drawn plan by commands alone, and one-line errors."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from pictures import frames_of, share_drawn

from scots.cli import main
from scots.data import formats
from scots.datasets import toy

DATA = toy.make(episodes=60)
START, GOAL = (",".join(map(str, DATA.positions[row].tolist())) for row in (0, 70))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an own log, own.csv: nothing but numbers with a header; and a planner made of it by commands."""
    root = tmp_path_factory.mktemp("own")
    with (root / "own.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["episode", "x", "y", "speed"])
        for row, (x, y) in enumerate(DATA.positions.tolist()):
            table.writerow([int(DATA.episode_of(row)), x, y, row % 7 / 10])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(root / "home"))
        log, stitched = str(root / "own.csv"), str(root / "aug.npz")
        few = ["--profile", "smoke", "--segment", "9", "--trajectories", "20", "--workers", "1"]
        assert main(["augment", log, "--out", stitched, *few]) == 0
        words = ["--data", stitched, "--recorded", log, "--out", str(root / "planner"), "--profile", "smoke"]
        assert main(["train", "hd", *words]) == 0
    return root


def run(own: Path, *words: str) -> int:
    return main(["plan", str(own / "planner"), *words])


@pytest.mark.slow
def test_an_own_log_becomes_a_drawn_plan(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = {name: tmp_path / name for name in ("plan.csv", "plan.npz", "plan.png", "over.png")}
    ends = ["--start", START, "--goal", GOAL, "--candidates", "3"]
    assert run(own, *ends, "--out", str(files["plan.csv"]), "--png", str(files["plan.png"])) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("plan 0: ")
    assert "off the recorded support" in printed.out
    assert len(printed.out.splitlines()) == 1
    assert str(files["plan.csv"]) in printed.err
    with files["plan.csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["plan", "step", "x", "y"]
    assert [row["step"] for row in rows] == [str(n) for n in range(len(rows))]
    assert [[float(rows[n][name]) for name in "xy"] for n in (0, -1)] == DATA.positions[[0, 70]].tolist()
    assert (
        run(
            own, *ends, "--out", str(files["plan.npz"]), "--png", str(files["over.png"]), "--data", str(own / "own.csv")
        )
        == 0
    )
    assert formats.read(files["plan.npz"]).rows == len(rows)
    pictures = [frames_of(files[name])[0] for name in ("plan.png", "over.png")]
    assert min(map(share_drawn, pictures)) > 0.001
    assert pictures[0].shape != pictures[1].shape or not np.array_equal(*pictures)
    capsys.readouterr()
    assert main(["data", "inspect", str(files["plan.npz"])]) == 0
    assert "planned here" in capsys.readouterr().out


@pytest.mark.slow
def test_many_pairs_by_flags_and_by_file_are_the_same(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pairs = tmp_path / "pairs.csv"
    cells = [[*DATA.positions[0].tolist(), *DATA.positions[row].tolist()] for row in (70, 200)]
    pairs.write_text("\n".join(["start_x,start_y,goal_x,goal_y", *(",".join(map(str, row)) for row in cells)]))
    assert run(own, "--pairs", str(pairs), "--candidates", "2") == 0
    by_file = capsys.readouterr().out
    goals = [word for row in cells for word in ("--goal", f"{row[2]},{row[3]}")]
    assert run(own, "--start", START, *goals, "--candidates", "2") == 0
    assert capsys.readouterr().out == by_file
    assert len(by_file.splitlines()) == 2
    speeds = ["--start", f"{START},0.3", "--goal", f"{GOAL},0.1"]  # whole states
    assert run(own, *speeds, "--candidates", "2") == 0
    assert capsys.readouterr().out.splitlines() == by_file.splitlines()[:1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give --start x,y and --goal x,y, or --pairs FILE"),
        (["--start", "1,1"], "give --start x,y and --goal x,y"),
        (["--start", "1;1", "--goal", "1,1"], "--start 1;1: expected numbers with commas between them"),
        (["--start", "1,1", "--goal", "1,1", "--pairs", "a.csv"], "give it without --start and --goal"),
        (["--pairs", "absent.csv"], "absent.csv: no such file"),
        (["--start", "1,1", "--goal", "-40,1"], "goal 0, (-40, 1), is 41"),
        (["--start", "1,1", "--goal", "1,1", "--out", "plan.txt"], "plans are written as .csv or .npz"),
        (["--start", "1,1", "--goal", "1,1", "--png", "plan.xyz"], "figures are not written as .xyz"),
        (["--start", "1,1", "--goal", "1,1", "--data", "own.csv"], "give --png FILE too"),
        (["--start", "1,1", "--goal", "1,1", "--every", "2"], "--every says how to read --data: give --data DATA too"),
        (["--start", "1,1", "--goal", "1,1", "--candidates", "0"], "--candidates 0: expected 1 or more"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    own: Path, words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
):
    assert run(own, *words) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert len(error.strip().splitlines()) == 1


def test_a_folder_without_a_planner_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["plan", str(tmp_path), "--start", "1,1", "--goal", "2,2"]) == 2
    assert "not the folder of a trained model" in capsys.readouterr().err
