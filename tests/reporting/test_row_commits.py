"""Rows name the code that made them, and that code is in the history of this repository."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_STORED = "stored in "  # not made by this commit, but not after it


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def history() -> list[str]:
    """Every commit that led to this one; skips where they are not here."""
    try:
        if git("rev-parse", "--is-shallow-repository") == "true":
            pytest.skip("this clone is shallow: it has no history")
        return git("rev-list", "HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git repository")


def unknown_commits(folder: Path, known: list[str]) -> list[str]:
    """Lines of result files whose commit is missing, not in the history, or had changes that nobody has."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            commit = (json.loads(line).get("commit") or "").removeprefix(_STORED)
            if len(commit) < 7 or not any(own.startswith(commit) for own in known):
                found.append(f"{path.name}:{number} names {commit or 'no commit'}")
    return found


def test_rows_of_unknown_code_are_found(tmp_path: Path):
    known = ["0123456789abcdef" + 24 * "0"]
    commits = ["0123456789ab", "stored in 0123456", "", "0123456789ab+changes", "be2bf61f7001", "012"]
    rows = [*({"commit": commit} for commit in commits), {"commit": None}, {}]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert unknown_commits(tmp_path, known) == [
        "some.jsonl:3 names no commit",
        "some.jsonl:4 names 0123456789ab+changes",
        "some.jsonl:5 names be2bf61f7001",
        "some.jsonl:6 names 012",
        "some.jsonl:7 names no commit",
        "some.jsonl:8 names no commit",
    ]


def test_every_row_names_a_commit_of_this_history():
    """A row that does not cannot be made again; rows are measured on committed code."""
    found = unknown_commits(ROOT / "results", history())
    assert not found, "\n".join(found)
