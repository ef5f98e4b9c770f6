"""What docs/ecosystem.md shows is run."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "ecosystem.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def is_installed(package: str) -> bool:
    """Whether there is a package of that name, not only a folder of tests."""
    found = importlib.util.find_spec(package)
    return found is not None and found.origin is not None


@pytest.mark.slow
def test_python_snippets_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hugging-face"))
    names: dict[str, Any] = {}
    for snippet in SNIPPETS:
        if "from datasets" not in snippet or is_installed("datasets"):
            exec(snippet, names)
    assert names["data"].to_pandas().columns.tolist() == ["episode", "x", "y", "action_0", "action_1"]
    assert names["own"].meta.columns == ("east", "north", "speed")
    assert names["swings"].lengths.tolist() == [51, 51, 51]
    assert len(names["losses"]) == 5
    assert names["policy"].stopped_at is None
    if is_installed("datasets"):
        for read in (names["again"], names["same"]):
            assert read.observations.tolist() == names["aug"].observations.tolist()
            assert read.actions.tolist() == names["aug"].actions.tolist()
