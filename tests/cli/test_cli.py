"""The command contract: what is printed where, exit codes, one-line errors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pictures import frames_of, share_drawn

from scots.cli import main
from scots.data import formats
from scots.data.shards import Shards
from scots.datasets import data_path, load, toy
from scots.datasets.collect import collect
from scots.datasets.experts import AntActor
from scots.datasets.specs import SPECS


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    "words",
    [
        [],
        *([name] for name in ("data", "augment", "train", "plan", "evaluate", "table", "report", "doctor")),
        *(["data", name] for name in ("list", "collect", "download", "tracks", "convert", "inspect", "expert")),
    ],
)
def test_help_is_readable_at_every_level(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    assert "usage: scots" in capsys.readouterr().out


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_list_shows_every_dataset_and_its_origin(capsys: pytest.CaptureFixture[str]):
    medium = SPECS["pointmaze-medium-stitch-v0"]
    collect(medium.collection.resized(2), data_path(medium.id), workers=1)
    assert main(["data", "list"]) == 0
    lines = {words[0]: line for line in listed(capsys) if (words := line.split())}
    assert lines[medium.id].split(maxsplit=4)[1:] == ["2", "201", "0.0", "collected here, 2 of 5,000 episodes"]
    assert "built in" in lines[toy.ID]
    assert lines["antmaze-large-explore-v0"].rstrip().endswith("-")
    assert load(medium.id).rows == 402
    assert load(f"{medium.id}-val").rows == 201


@pytest.mark.slow
def test_collect_inspect_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data, table = tmp_path / "toy.npz", tmp_path / "tracks"
    assert main(["data", "collect", toy.ID, "--episodes", "5", "--out", str(data)]) == 0
    assert main(["data", "convert", str(data), str(table)]) == 0
    assert formats.read(table).equals(formats.read(data))
    capsys.readouterr()
    pictures = []
    for source, columns in ((table, "x,y"), (data, "x,y"), (data, "y,x")):
        words = ["data", "inspect", str(source), "--json", "--png", str(tmp_path / "a.png"), "--position", columns]
        assert main(words) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["episodes"], facts["rows"]) == (5, 165)
        pictures += frames_of(tmp_path / "a.png")
    left, _, right = np.array_split(pictures[0], 3, axis=1)  # what lies between is the colour bar
    assert min(share_drawn(left), share_drawn(right)) > 0
    assert np.array_equal(pictures[0], pictures[1])
    assert not np.array_equal(pictures[1], pictures[2])


def test_inspect_looks_at_broken_data_that_nothing_else_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "broken.npz"
    observations = np.zeros((4, 2))
    observations[2, 1] = np.nan
    np.savez(path, observations=observations, episode_ends=[4])
    assert main(["data", "inspect", str(path)]) == 0
    assert "row 2 is the first of 1 with NaN" in capsys.readouterr().out
    assert main(["data", "convert", str(path), str(tmp_path / "out.npz")]) == 2
    assert "row 2" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken.npz"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["inspect", "pointmaze-gaint-stitch-v0"], "did you mean pointmaze-giant-stitch-v0"),
        (["inspect", "antmaze-large-explore-v0"], "scots data collect antmaze-large-explore-v0"),
        (["collect", "nonsense"], "see `scots data list`"),
        (["collect", "pointmaze-medium-stitch-v0", "--episodes", "0"], "--episodes 0: expected 1 or more"),
        (["collect", "pointmaze-medium-stitch-v0", "--maze", "absent.txt"], "absent.txt: no such file"),
        (["download", "pointmaze-medium-stitch-v0", "--offline"], "pointmaze-medium-stitch-v0"),
        (["download", "nonsense"], "no such dataset"),
        (["inspect", toy.ID, "--position", "u,v"], "no observation column 'u'"),
        (["convert", toy.ID, "out.xyz"], "no format is written to .xyz"),
    ],
)
def test_bad_input_is_one_line_and_code_2(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]):
    assert main(["data", *words]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert len(error.strip().splitlines()) == 1


@pytest.mark.slow
def test_augment_replaces_another_file_only_by_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, out = tmp_path / "toy.npz", tmp_path / "aug.npz"
    formats.write(toy.make(30), source)
    bytes_before = source.read_bytes()

    def augment(to: Path, *words: str, seed: int = 0) -> tuple[int, str]:
        own = ["--profile", "smoke", "--segment", "9", "--trajectories", "4", "--workers", "1", "--seed", str(seed)]
        code = main(["augment", str(source), "--out", str(to), *own, *words])
        return code, capsys.readouterr().err

    code, error = augment(source)
    assert (code, source.read_bytes()) == (2, bytes_before)
    assert "toy.npz: another file is there; --force replaces it, --out FILE writes elsewhere" in error
    assert not (tmp_path / "home" / "artifacts").exists()  # refused before anything was trained
    assert augment(out)[0] == 0
    first, time = out.read_bytes(), out.stat().st_mtime_ns
    code, error = augment(out)
    assert (code, out.stat().st_mtime_ns) == (0, time)
    assert "already made with the same settings" in error
    assert augment(out, seed=1)[0] == 2
    assert out.read_bytes() == first
    assert augment(out, "--force", seed=1)[0] == 0
    assert [step["seed"] for step in formats.read(out).meta.provenance] == [0, 1]
    assert formats.read(tmp_path / "aug-val.npz").meta == formats.read(out).meta
    assert "already made" in augment(out, seed=1)[1]
    code, error = augment(source, "--force")
    assert (code, source.read_bytes()) == (2, bytes_before)
    assert "is the data to augment" in error


@pytest.mark.slow
def test_augment_continues_its_own_unfinished_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = tmp_path / "aug.npz"
    words = ["augment", toy.ID, "--out", str(out), "--profile", "smoke", "--trajectories", "4", "--workers", "1"]
    write = Shards.write

    def killed(shards, runs, meta, path):
        if path != out:
            raise KeyboardInterrupt
        write(shards, runs, meta, path)

    with monkeypatch.context() as patch:
        patch.setattr(Shards, "write", killed)
        main(words)
    assert out.exists()
    assert not (tmp_path / "aug-val.npz").exists()
    assert main(words) == 0
    assert (tmp_path / "aug-val.npz").exists()
    assert not list(tmp_path.glob(".*.parts"))


def test_a_dataset_in_an_own_maze_keeps_the_id_that_was_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    maze, id = tmp_path / "giant.txt", "pointmaze-mine-stitch-v0"
    maze.write_text("########\n#......#\n#.####.#\n#......#\n########\n1,1 -> 3,6\n")
    assert main(["data", "collect", id, "--maze", str(maze), "--episodes", "2", "--workers", "1"]) == 0
    assert capsys.readouterr().out == f"{data_path(id)}\n"
    data = load(id)
    assert (data.meta.dataset, data.meta.environment) == (id, "pointmaze-mine-v0")
    assert main(["data", "list"]) == 0
    (line,) = [line for line in listed(capsys) if line.startswith("pointmaze-mine")]
    assert line.split(maxsplit=4)[1:] == ["2", "201", "0.0", "collected here, own maze"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["pointmaze-medium-stitch-v0", "--episodes", "2"], "2 episodes are not pointmaze-medium-stitch-v0, which has"),
        ([toy.ID, "--episodes", "2"], "which has 400; write them to a file of their own with --out FILE"),
        (["pointmaze-giant-stitch-v0", "--maze", "maze.txt"], "giant is a maze of the benchmark"),
        (["antmaze-medium-explore-v0", "--maze", "maze.txt", "--out", "a.npz"], "such as antmaze-mymedium-explore-v0"),
    ],
)
def test_nothing_else_takes_the_place_of_a_known_dataset(
    words: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("maze.txt").write_text("########\n#......#\n#.####.#\n#......#\n########\n1,1 -> 3,6\n")
    assert main(["data", "collect", *words]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


def test_junk_in_the_data_home_does_not_hide_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = data_path("x").parent
    folder.mkdir(parents=True)
    (folder / "junk.npz").write_text("no zip")
    (folder / "pointmaze-giant-stitch-v0.npz").write_bytes(b"PK\x03\x04")
    (folder / "folder.npz").mkdir()
    (folder / "notes.txt").write_text("no data")
    os.mkfifo(folder / "pipe.npz")
    formats.write(toy.make(3), folder / "mine.npz")
    formats.write(toy.make(1), folder / "mine-val.npz")
    assert main(["data", "list"]) == 0
    lines = {words[0]: line for line in listed(capsys) if (words := line.split())}
    for name in ("junk", "folder", "pipe", "pointmaze-giant-stitch-v0"):
        assert "unreadable" in lines[name]
    assert lines["mine"].split()[1:3] == ["3", "33"]
    assert "mine-val" not in lines
    assert main(["doctor"]) == 0
    assert "try next: scots data inspect mine" in capsys.readouterr().out


def test_debug_adds_the_traceback(capsys: pytest.CaptureFixture[str]):
    assert main(["data", "inspect", "nonsense", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_unknown_words_are_code_2():
    for words in (["dance"], ["data", "collect", toy.ID, "--colour", "red"]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of a shell")
def test_output_that_nobody_reads_to_the_end_ends_quietly(tmp_path: Path):
    read, write = os.pipe()
    os.close(read)  # as head does when it has read enough
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{n},{n % 3}\n" for n in range(40)))
    words = [sys.executable, "-m", "scots", "data", "inspect", str(tmp_path / "a.csv")]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, "pipe" in done.stderr.lower()) == (0, False)


def test_failures_of_ours_are_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("scots.datasets.loading.list_datasets", lambda: 1 // 0)
    assert main(["data", "list"]) == 1
    assert "internal error, please report it: ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.slow
def test_doctor_runs_as_a_program():
    done = subprocess.run([sys.executable, "-m", "scots.cli", "doctor"], capture_output=True, text=True, check=True)
    assert "torch" in done.stdout
    assert "try next: scots data" in done.stdout


def test_expert_is_measured(capsys: pytest.CaptureFixture[str]):
    assert main(["data", "expert", "ant", "--measure", "--episodes", "2"]) == 0
    assert "reached_within_1m" in capsys.readouterr().out


@pytest.mark.slow
def test_expert_trains_and_is_usable(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["data", "expert", "ant", "--steps", "300", "--episodes", "1", "--out", str(tmp_path / "ant")]
    assert main(words) == 0
    assert (tmp_path / "ant" / "actor.safetensors").stat().st_size < 1_000_000
    directions = np.array([[1.0, 0.0], [0.0, 1.0]])
    east, north = (AntActor(tmp_path / "ant")(np.ones(29), direction) for direction in directions)
    assert east.shape == (8,)
    assert 0 < np.abs(east - north).max() <= 2
