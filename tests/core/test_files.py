"""Atomic writes leave either the whole file or nothing."""

import os
from pathlib import Path

import pytest

from scots.core.errors import BadInput
from scots.core.files import atomic, home, sha256, write_text


def test_file_appears_only_when_complete(tmp_path: Path):
    target = tmp_path / "new" / "a.txt"
    with atomic(target) as temporary:
        temporary.write_text("half")
        assert not target.exists()
    assert target.read_text() == "half"
    assert os.listdir(target.parent) == ["a.txt"]


def test_failed_write_keeps_the_old_file_and_leaves_no_temporary(tmp_path: Path):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with pytest.raises(ZeroDivisionError), atomic(target) as temporary:
        temporary.write_text(f"new {1 // 0}")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_atomic_folder_replaces_a_folder(tmp_path: Path):
    target = tmp_path / "set"
    for text in ("one", "two"):
        with atomic(target) as temporary:
            temporary.mkdir()
            (temporary / text).write_text(text)
    assert os.listdir(target) == ["two"]
    assert os.listdir(tmp_path) == ["set"]


def test_write_errors_name_the_target(tmp_path: Path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(BadInput, match=r"file/inside\.txt: cannot write"):
        write_text(blocker / "inside.txt", "x")


def test_home_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path))
    assert home() == tmp_path
    monkeypatch.delenv("SCOTS_HOME")
    assert home() == Path.home() / ".scots"


def test_sha256_of_known_content(tmp_path: Path):
    path = tmp_path / "abc"
    path.write_bytes(b"abc")
    assert sha256(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
