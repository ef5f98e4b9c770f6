"""Work that the machine cannot do is refused with the arithmetic."""

from pathlib import Path

import pytest

from scots.core import resources
from scots.core.errors import BadInput
from scots.core.resources import available_memory, check_disk, check_memory, free_disk, peak_memory


def test_disk_space_of_a_path_that_is_not_there_yet_is_that_of_its_folder(tmp_path: Path):
    assert free_disk(tmp_path / "a" / "b" / "c.npz") == pytest.approx(free_disk(tmp_path), rel=0.01)


def test_more_than_the_disk_holds_is_refused_with_the_arithmetic(tmp_path: Path):
    check_disk(tmp_path / "a.npz", 1, "one byte")
    with pytest.raises(BadInput, match=r"a.npz: needs .* of disk space \(10 times 2\), and .* are free; make fewer"):
        check_disk(tmp_path / "a.npz", 2 * free_disk(tmp_path), "10 times 2")


def test_peak_memory_holds_what_was_there_at_once():
    before = peak_memory()
    block = bytearray(300_000_000)
    block[::4096] = b"x" * len(block[::4096])  # touched, or it would not be resident
    grown = peak_memory()
    del block
    assert before <= grown == peak_memory()
    assert grown >= 300_000_000


def test_more_than_the_memory_holds_is_refused_where_the_system_tells(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resources, "available_memory", lambda: 1_000_000)
    check_memory(1_000_000, "little")
    with pytest.raises(BadInput, match=r"2.0 MB of memory are needed \(1,000 x 2 kB\), and 1.0 MB are there"):
        check_memory(2_000_000, "1,000 x 2 kB")
    monkeypatch.setattr(resources, "available_memory", lambda: None)
    check_memory(10**18, "much")


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux tells")
def test_available_memory_is_that_of_the_system():
    assert 10**7 < available_memory() < 10**14
