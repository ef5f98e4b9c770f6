"""The results page is what the rows say."""

from pathlib import Path

import pytest

from scots.errors import BadInput
from scots.results import page, read_rows

ROOT = Path(__file__).parents[2]


def test_the_page_is_not_stale():
    assert (ROOT / "docs" / "results.md").read_text() == page(ROOT / "results"), "run `make results`"


def test_the_newest_row_of_a_run_counts(tmp_path: Path):
    path = tmp_path / "quality.jsonl"
    line = '{{"dataset": "a", "recipe": "r", "profile": "p", "seed": {seed}, "x": {x}}}\n'
    path.write_text(line.format(seed=0, x=1) + line.format(seed=1, x=2) + line.format(seed=0, x=3))
    assert [(row["seed"], row["x"]) for row in read_rows(path)] == [(0, 3), (1, 2)]
    path.write_text(line.format(seed=0, x=1) + "garbage\n")
    with pytest.raises(BadInput, match="line 2"):
        read_rows(path)
    assert read_rows(tmp_path / "absent.jsonl") == []
