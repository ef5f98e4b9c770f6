"""Progress output on a terminal and in a plain log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import scots.core.console
from scots.core.console import amount, duration, progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(scots.core.console, "time", clock)
    return clock


def capture_console(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> io.StringIO:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=100, color_system=None)
    monkeypatch.setattr(scots.core.console, "console", console)
    return output


def test_plain_log_estimates_early_then_prints_every_ten_seconds_and_a_summary(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    output = capture_console(monkeypatch, terminal=False)
    with progress("train", 100, "steps") as bar:
        for _ in range(100):
            clock.now += 0.25
            bar.advance()
    assert output.getvalue().splitlines() == [
        "train: 12/100 steps, 4 steps/s, 0:22 left",
        "train: 52/100 steps, 4 steps/s, 0:12 left",
        "train: 92/100 steps, 4 steps/s, 0:02 left",
        "train: 100/100 steps in 0:25, 4 steps/s",
    ]


def test_earlier_work_counts_towards_the_total_but_not_the_rate(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    output = capture_console(monkeypatch, terminal=False)
    with progress("x.npz", 10_000_000, "bytes", completed=9_000_000) as bar:
        clock.now += 2
        bar.advance(1_000_000)
    assert output.getvalue() == "x.npz: 10.0 MB of 10.0 MB in 0:02, 500.0 kB/s\n"


def test_unknown_total_shows_the_completed_count(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    output = capture_console(monkeypatch, terminal=False)
    with progress("collect", None, "episodes") as bar:
        clock.now += 10
        bar.advance(25)
    assert output.getvalue().splitlines() == [
        "collect: 25 episodes, 2.5 episodes/s",
        "collect: 25 episodes in 0:10, 2.5 episodes/s",
    ]


def test_interrupted_work_prints_its_progress(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    output = capture_console(monkeypatch, terminal=False)

    def stop() -> None:
        with progress("train", 100, "steps") as bar:
            clock.now += 1
            bar.advance(30)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert output.getvalue() == "train: 30/100 steps in 0:01, 30 steps/s\n"


@pytest.mark.parametrize(("unit", "shown"), [("steps", "2,000/2,000 steps"), ("bytes", "2.0 kB of 2.0 kB")])
def test_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch, unit: str, shown: str) -> None:
    output = capture_console(monkeypatch, terminal=True)
    with progress("train", 2000, unit, completed=500) as bar:
        bar.advance(500)
        bar.advance(1000)
    assert "━" in output.getvalue()
    assert shown in output.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_labels_are_not_parsed_as_markup(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    output = capture_console(monkeypatch, terminal=terminal)
    with progress("[bold]x", 1, "steps") as bar:
        bar.advance()
    assert "[bold]x" in output.getvalue()


def test_messages_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    scots.core.console.console.print("hello")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "hello\n")


def test_amount_formatting() -> None:
    assert amount(0, "steps") == "0 steps"
    assert amount(1234.6, "steps") == "1,235 steps"
    assert amount(3.456, "episodes") == "3.46 episodes"
    assert amount(1_500_000, "bytes") == "1.5 MB"


def test_duration_formatting() -> None:
    assert [duration(seconds) for seconds in (0.4, 59.6, 750, 11100)] == ["0:00", "1:00", "12:30", "3:05:00"]
