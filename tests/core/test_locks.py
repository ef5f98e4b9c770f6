"""One process at a time: the second waits and says so, a killed one leaves nothing behind that blocks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from scots.core.errors import BadInput
from scots.core.locks import locked

HOLD = """
import sys, time
from pathlib import Path
from scots.core.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""

COUNT = """
import sys, time
from pathlib import Path
from scots.core.locks import locked
path = Path(sys.argv[1])
for _ in range(int(sys.argv[2])):
    with locked(path):
        number = int(path.read_text())
        time.sleep(0.001)  # without the lock another process would write in between
        path.write_text(str(number + 1))
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_a_second_process_says_that_it_waits_and_goes_on_when_the_first_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "aug.npz"
    holder = start(HOLD, path)
    assert holder.stdout.readline() == "held\n"
    killer = threading.Timer(0.5, holder.send_signal, [signal.SIGKILL])
    killer.start()
    begin = time.monotonic()
    with locked(path):
        assert time.monotonic() - begin > 0.3
    holder.wait()
    assert f"{path}: another process is working on it; waiting" in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_many_processes_never_work_at_once(tmp_path: Path):
    """The lock file is removed and made again all the time, which must not let two of them in."""
    path = tmp_path / "count"
    path.write_text("0")
    processes = [start(COUNT, path, 30) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    assert path.read_text() == "120"
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_path_can_be_locked_again_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with locked(tmp_path / "a"), locked(Path("a")), locked(tmp_path / "b"):
        assert sorted(os.listdir(tmp_path)) == [".a.lock", ".b.lock"]
    assert os.listdir(tmp_path) == []


def test_another_thread_waits(tmp_path: Path):
    order = []

    def work() -> None:
        with locked(tmp_path / "a"):
            order.append("thread")

    with locked(tmp_path / "a"):
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.2)
        order.append("main")
    thread.join()
    assert order == ["main", "thread"]


def test_an_error_inside_releases_the_lock(tmp_path: Path):
    with pytest.raises(ValueError, match="inside"), locked(tmp_path / "a"):
        raise ValueError("inside")
    assert list(tmp_path.iterdir()) == []


def test_processes_that_train_together_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    holder = start(HOLD, tmp_path / "a")
    assert holder.stdout.readline() == "held\n"
    monkeypatch.setenv("RANK", "1")
    with locked(tmp_path / "a"):
        pass
    holder.kill()
    holder.wait()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"), locked(tmp_path / "file" / "a"):
        pass
