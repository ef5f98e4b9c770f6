"""What docs/own-data.md shows is run, and what it prints is what is printed."""

import re
from pathlib import Path

import pytest

from scots.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text()


@pytest.fixture
def _tracks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    Path("tracks.csv").write_text(re.search(r"```csv\n(.*?)```", PAGE, re.DOTALL)[1])


@pytest.mark.usefixtures("_tracks")
def test_inspect_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]):
    assert main(re.search(r"`scots (data inspect .*?)`", PAGE)[1].split()) == 0
    assert re.search(r"```\n(read: .*?)```", PAGE, re.DOTALL)[1] in capsys.readouterr().out
    assert Path("tracks.png").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("_tracks")
def test_the_commands_of_the_page_run():
    commands = re.findall(r"^scots (.*)$", PAGE, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        assert main(command.split()) == 0
    assert "latitude" in Path("aug.csv").read_text().splitlines()[0]


def test_every_flag_is_explained():
    from scots.data.choices import Choices

    for name in Choices.__dataclass_fields__:
        assert f"| `--{name} " in PAGE
