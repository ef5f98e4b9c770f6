"""Terminal output: messages and progress go to stderr, so stdout holds results only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

console = Console(stderr=True)
"""Prints everything that is not a result."""

_FIRST_ESTIMATE = 3.0  # seconds after which a plain log says how long the work will take
_LOG_INTERVAL = 10.0  # seconds between plain progress lines, so the log of a long run stays readable


class Progress(Protocol):
    """Handle that `progress` yields: the block calls it to report progress."""

    def advance(self, amount: int = 1) -> None:
        """Add this much completed work."""


@contextmanager
def progress(label: str, total: int | None, unit: str, *, completed: int = 0) -> Iterator[Progress]:
    """Show the progress of the block: a bar on a terminal, occasional plain lines elsewhere.

    The unit is a plural such as "steps", or "bytes", which are shown as kB, MB and so on. `completed` is work done by
    an earlier run: it counts towards the total but not towards the rate.
    """
    if console.is_terminal:
        label_column = TextColumn("{task.description}", markup=False)
        with Bars(label_column, BarColumn(), _StatusColumn(unit), console=console) as bars:
            yield _Bar(bars, label, total, completed)
    else:
        log = _PlainLog(label, total, unit, completed)
        try:
            yield log
        finally:
            log.close()


class _Bar:
    def __init__(self, bars: Bars, label: str, total: int | None, completed: int) -> None:
        self._bars = bars
        self._task = bars.add_task(label, total=total, completed=completed)

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._task, amount)


class _StatusColumn(ProgressColumn):
    """The text to the right of the bar."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        total = None if task.total is None else int(task.total)
        rate = task.finished_speed if task.finished else task.speed
        return Text(_status(int(task.completed), total, self._unit, rate or 0.0))


class _PlainLog:
    def __init__(self, label: str, total: int | None, unit: str, completed: int) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._initial = self._completed = completed
        self._started = time.monotonic()
        self._next_print = self._started + _FIRST_ESTIMATE

    def advance(self, amount: int = 1) -> None:
        self._completed += amount
        if time.monotonic() >= self._next_print:
            self._next_print = time.monotonic() + _LOG_INTERVAL
            self._print(_status(self._completed, self._total, self._unit, self._rate()))

    def close(self) -> None:
        completed = _completed_of(self._completed, self._total, self._unit)
        seconds = time.monotonic() - self._started
        self._print(f"{completed} in {duration(seconds)}, {amount(self._rate(), self._unit)}/s")

    def _rate(self) -> float:
        return (self._completed - self._initial) / max(time.monotonic() - self._started, 1e-9)

    def _print(self, status: str) -> None:
        console.print(f"{self._label}: {status}", markup=False, highlight=False, soft_wrap=True)


def _status(completed: int, total: int | None, unit: str, rate: float) -> str:
    """Completed work, rate and time left: "120/500 episodes, 12 episodes/s, 0:31 left"."""
    parts = [_completed_of(completed, total, unit)]
    if rate > 0:
        parts.append(f"{amount(rate, unit)}/s")
        if total is not None and completed < total:
            parts.append(f"{duration((total - completed) / rate)} left")
    return ", ".join(parts)


def _completed_of(completed: int, total: int | None, unit: str) -> str:
    if total is None:
        return amount(completed, unit)
    return f"{decimal(completed)} of {decimal(total)}" if unit == "bytes" else f"{completed:,}/{total:,} {unit}"


def amount(count: float, unit: str) -> str:
    """A number with its unit: "1,200 steps", "3.5 episodes", "12.3 MB"."""
    if unit == "bytes":
        return decimal(int(count))
    return f"{count:,.0f} {unit}" if count >= 100 or count == int(count) else f"{count:.3g} {unit}"


def duration(seconds: float) -> str:
    """Format seconds as minutes or hours: "0:07", "12:30", "3:05:00"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
