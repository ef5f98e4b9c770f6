"""Work in shards: what is there is whole, what is missing is done, nothing outlives a kill."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from scots.core import resources
from scots.core.errors import BadInput
from scots.data import shards as sharding
from scots.data.npz import read_npz
from scots.data.shards import Make, ShardedJob, Shards, memory_estimate
from scots.data.trajectories import Meta

RUNS = (range(0, 3), range(3, 5), range(5, 9))


def squares(offset: int, pause: float = 0.0):
    """A worker that squares item numbers."""

    def make(run: range) -> dict[str, np.ndarray]:
        time.sleep(pause)
        return {"square": np.array([(n + offset) ** 2 for n in run])}

    return make


@dataclass(frozen=True)
class Counting(ShardedJob):
    """A job whose episodes nobody makes."""

    def described(self, validation: bool) -> Meta:
        return Meta()

    def worker(self) -> Make:
        return squares(0)


def complete(shards: Shards, pause: float = 0.0, workers: int = 2) -> None:
    shards.complete(squares, (1, pause), workers=workers, label="squaring", weight=1, unit="items")


def test_only_what_is_missing_is_done_again(tmp_path: Path):
    shards = Shards.beside(tmp_path / "a.npz", "abc", RUNS)
    complete(shards)
    assert shards.pending() == []
    found = np.concatenate([read_npz(shards.path(run))["square"] for run in RUNS])
    assert found.tolist() == [(n + 1) ** 2 for n in range(9)]
    kept = shards.path(RUNS[0]).stat().st_mtime_ns
    shards.path(RUNS[1]).unlink()
    assert shards.pending() == [RUNS[1]]
    complete(shards)
    assert shards.path(RUNS[0]).stat().st_mtime_ns == kept
    shards.remove()
    assert os.listdir(tmp_path) == []


def test_a_failing_worker_is_reported(tmp_path: Path):
    shards = Shards.beside(tmp_path / "a.npz", "abc", RUNS)
    with pytest.raises(TypeError, match="unsupported operand"):  # of the worker: a number plus "one"
        shards.complete(squares, ("one",), workers=1, label="squaring", weight=1, unit="items")


def test_an_unwritable_place_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        complete(Shards.beside(tmp_path / "file" / "a.npz", "abc", RUNS))


def children_of(process: int) -> set[int]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return set(map(int, path.read_text().split())) if path.exists() else set()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see processes")
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path):
    """Only the parent is killed, as an out-of-memory killer would; its workers must go by themselves."""
    code = (
        f"import test_shards as t; t.complete(t.Shards.beside(t.Path({str(tmp_path / 'a.npz')!r}), 'abc', t.RUNS), 2.0)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, env=environment)
    while not list(tmp_path.glob(".a.npz.abc.parts/*.npz")):
        assert process.poll() is None
        time.sleep(0.02)
    workers = children_of(process.pid)
    assert len(workers) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_memory_grows_with_workers_and_data_and_a_lack_of_it_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sharding, "available_memory", lambda: 3_000_000_000)
    assert memory_estimate(0, 2) == "about 1.2 GB of memory in 3 processes"
    assert memory_estimate(10**9, 1) == "about 2.8 GB of memory in 2 processes"
    assert memory_estimate(10**9, 2).endswith("and only 3.0 GB are free: take fewer --workers")


def test_a_job_that_the_disk_cannot_hold_is_refused_and_finished_shards_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    job = Counting(episodes=10, states=100)  # 11 episodes of 100 states of 10 bytes, twice
    monkeypatch.setattr(resources, "free_disk", lambda path: 21_000)
    with pytest.raises(BadInput, match=r"needs 22.0 kB of disk space \(10 \+ 1 episodes of 100 states of 10 bytes"):
        job.check_room(tmp_path / "a.npz", 10)
    folder = job.shards(tmp_path / "a.npz").folder
    folder.mkdir()
    (folder / "000000-000005.npz").write_bytes(bytes(1_000))
    assert job.check_room(tmp_path / "a.npz", 10) == "10 + 1 episodes of 100 states, 11.0 kB"
