"""The terminal: talk and progress go to stderr, so that stdout holds results alone."""

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
"""Where everything that is not a result is said."""

PLAIN_SECONDS = 10.0  # off a terminal, at most one line in this time: a log stays readable after a night


class Progress(Protocol):
    """What `progress` gives: something to tell how far the work has come."""

    def advance(self, amount: int = 1) -> None:
        """Count this much more work as done."""


@contextmanager
def progress(label: str, total: int | None, unit: str, *, completed: int = 0) -> Iterator[Progress]:
    """Show how far the work in the block is: a bar on a terminal, a few plain lines elsewhere.

    The unit is a plural such as "steps", or "bytes", which are shown as kB, MB and so on. `completed` is work that an
    earlier run did: it counts as done, but not in the rate.
    """
    if console.is_terminal:
        label_column = TextColumn("{task.description}", markup=False)
        with Bars(label_column, BarColumn(), _Status(unit), console=console) as bars:
            yield _Bar(bars, label, total, completed)
    else:
        lines = _Lines(label, total, unit, completed)
        try:
            yield lines
        finally:
            lines.close()


class _Bar:
    def __init__(self, bars: Bars, label: str, total: int | None, completed: int) -> None:
        self._bars = bars
        self._task = bars.add_task(label, total=total, completed=completed)

    def advance(self, amount: int = 1) -> None:
        self._bars.advance(self._task, amount)


class _Status(ProgressColumn):
    """The words to the right of the bar."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        total = None if task.total is None else int(task.total)
        rate = task.finished_speed if task.finished else task.speed
        return Text(_status(int(task.completed), total, self._unit, rate or 0.0))


class _Lines:
    def __init__(self, label: str, total: int | None, unit: str, completed: int) -> None:
        self._label, self._total, self._unit = label, total, unit
        self._before = self._completed = completed
        self._begin = self._said = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        self._completed += amount
        if time.monotonic() - self._said >= PLAIN_SECONDS:
            self._said = time.monotonic()
            self._say(_status(self._completed, self._total, self._unit, self._rate()))

    def close(self) -> None:
        done = _done(self._completed, self._total, self._unit)
        seconds = time.monotonic() - self._begin
        self._say(f"{done} in {duration(seconds)}, {amount(self._rate(), self._unit)}/s")

    def _rate(self) -> float:
        return (self._completed - self._before) / max(time.monotonic() - self._begin, 1e-9)

    def _say(self, status: str) -> None:
        console.print(f"{self._label}: {status}", markup=False, highlight=False, soft_wrap=True)


def _status(completed: int, total: int | None, unit: str, rate: float) -> str:
    """How far, how fast and how long still: "120/500 episodes, 12 episodes/s, 0:31 left"."""
    words = [_done(completed, total, unit)]
    if rate > 0:
        words.append(f"{amount(rate, unit)}/s")
        if total is not None and completed < total:
            words.append(f"{duration((total - completed) / rate)} left")
    return ", ".join(words)


def _done(completed: int, total: int | None, unit: str) -> str:
    if total is None:
        return amount(completed, unit)
    return f"{decimal(completed)} of {decimal(total)}" if unit == "bytes" else f"{completed:,}/{total:,} {unit}"


def amount(count: float, unit: str) -> str:
    """A number with its unit: "1,200 steps", "3.5 episodes", "12.3 MB"."""
    if unit == "bytes":
        return decimal(int(count))
    return f"{count:,.0f} {unit}" if count >= 100 or count == int(count) else f"{count:.3g} {unit}"


def duration(seconds: float) -> str:
    """A time as people write it: "0:07", "12:30", "3:05:00"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
