"""What the README shows is run."""

import re
from pathlib import Path

import pytest

from scots.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/planning.md"])
def test_python_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert snippets
    names: dict[str, object] = {}  # later snippets use what earlier ones made
    for snippet in snippets:
        exec(snippet, names)


def test_every_command_shown_exists(capsys: pytest.CaptureFixture[str]):
    commands = set(re.findall(r"^scots ((?:data )?\w+)", README, re.MULTILINE))
    assert len(commands) >= 6
    for command in commands:
        with pytest.raises(SystemExit) as stop:
            main([*command.split(), "--help"])
        assert stop.value.code == 0


def test_the_maze_shown_is_a_maze(tmp_path: Path):
    from scots.envs.maze import load_maze

    path = tmp_path / "readme.txt"
    path.write_text(re.search(r"```\n(#+\n.*?)```", README, re.DOTALL)[1])
    assert load_maze(path).tasks == (((1, 1), (3, 6)),)
