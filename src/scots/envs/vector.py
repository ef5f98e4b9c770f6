"""Many environments side by side, in worker processes that only step them.

All step together, so the number of workers changes nothing. Episode n of a task has a random stream of its own, so it
does not depend on which episodes run beside it either.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data.shards import hidden_main, single_threaded
from scots.data.trajectories import Array, Meta
from scots.envs.base import Environment, Task

EpisodeId = tuple[Task, int]
"""A task and the number of one of its episodes."""


@dataclass(frozen=True, eq=False)
class Steps:
    """What one action of each of B environments leads to."""

    observations: Array  # (B, O)
    rewards: Array  # (B,)
    successes: Array  # (B,) bool
    dones: Array  # (B,) bool


_Reply = tuple[Array | None, ...]
"""Arrays with one entry per environment; None where there is nothing, such as goals of tasks without any."""


class _Group:
    """The environments of one process, by number."""

    def __init__(self, kind: type[Environment], meta: Meta, count: int) -> None:
        self._environments = kind.make(meta, count)

    def reset(self, episodes: list[EpisodeId], seed: int) -> _Reply:
        """Begin these episodes, one in each of the first environments: observations and goals (B, O)."""
        streams = [Seeds(seed).stream(f"environment {task.label}", number) for task, number in episodes]
        begun = [
            environment.reset(task, rng)
            for environment, (task, _), rng in zip(self._environments, episodes, streams, strict=False)
        ]
        goals = [goal for _, goal in begun if goal is not None]
        if len(goals) not in (0, len(begun)):
            raise BadInput(_MIXED)
        return np.stack([first for first, _ in begun]), np.stack(goals) if goals else None

    def step(self, numbers: list[int], actions: Array) -> _Reply:
        """Step these environments: observations (B, O), rewards, successes and dones (B,)."""
        stepped = [self._environments[number].step(action) for number, action in zip(numbers, actions, strict=True)]
        return tuple(np.stack(column) for column in zip(*stepped, strict=True))


_MIXED = "tasks with and without goals cannot be run together; name those of one kind with --tasks"


# ----------------------------------------------------------------------------------------------------------- workers


class _Local:
    """A group in this process, called as a worker is."""

    def __init__(self, group: _Group) -> None:
        self._group = group

    def send(self, method: str, *arguments: Any) -> None:
        self._reply = getattr(self._group, method)(*arguments)

    def receive(self) -> _Reply:
        return self._reply

    def close(self) -> None:
        pass


class _Worker:
    """A group in a process of its own."""

    def __init__(self, kind: type[Environment], meta: Meta, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, kind, meta, count), daemon=True)
        self._process.start()
        theirs.close()

    def send(self, method: str, *arguments: Any) -> None:
        with suppress(ConnectionError):  # the worker has failed; `receive` gets the reason
            self._connection.send((method, arguments))

    def receive(self) -> _Reply:
        try:
            reply = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise RuntimeError("a process that held environments was killed; is there enough memory?") from error
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        self._connection.close()
        self._process.join()


def _serve(connection: Connection, kind: type[Environment], meta: Meta, count: int) -> None:
    """The loop of a worker process: answer calls until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the main process too, which then closes
    try:
        group = _Group(kind, meta, count)
        while True:
            method, arguments = connection.recv()
            connection.send(getattr(group, method)(*arguments))
    except (EOFError, ConnectionError):
        return
    except Exception as error:
        connection.send(error)


class VectorEnvironment:
    """Environments dealt out over workers: number n is with worker n modulo their number."""

    def __init__(self, parts: Sequence[_Local | _Worker]) -> None:
        self._parts = parts

    def reset(self, episodes: Sequence[EpisodeId], seed: int) -> tuple[Array, Array | None]:
        """Begin these episodes, numbered from 0: observations (B, O), and goals (B, O) where tasks have any."""
        shares = self._shares(np.arange(len(episodes)))
        observations, goals = self._call(
            "reset", shares, [([episodes[n] for n in share], seed) for share in shares.values()]
        )
        assert observations is not None
        return observations, goals

    def step(self, numbers: Array, actions: Array) -> Steps:
        """Step the episodes of these numbers (B,) by actions (B, A)."""
        shares = self._shares(numbers)
        local = numbers // len(self._parts)
        reply = self._call("step", shares, [(local[share].tolist(), actions[share]) for share in shares.values()])
        return Steps(*reply)  # type: ignore[arg-type]

    def _shares(self, numbers: Array) -> dict[int, Array]:
        """Which of these numbers each worker has, for workers that have any."""
        shares = {part: np.flatnonzero(numbers % len(self._parts) == part) for part in range(len(self._parts))}
        return {part: share for part, share in shares.items() if len(share)}

    def _call(self, method: str, shares: dict[int, Array], arguments: list[tuple[Any, ...]]) -> _Reply:
        """Call all workers at once; put their answers back in order."""
        for part, theirs in zip(shares, arguments, strict=True):
            self._parts[part].send(method, *theirs)
        order = np.argsort(np.concatenate(list(shares.values())))
        columns = zip(*(self._parts[part].receive() for part in shares), strict=True)
        return tuple(_joined(column, order) for column in columns)


def _joined(parts: Sequence[Array | None], order: Array) -> Array | None:
    """The arrays of all workers in the order of the episodes; None if none of them has any."""
    arrays = [part for part in parts if part is not None]
    if len(arrays) not in (0, len(parts)):
        raise BadInput(_MIXED)
    return np.concatenate(arrays)[order] if arrays else None


@contextmanager
def vector_environment(
    kind: type[Environment], meta: Meta, count: int, workers: int | None
) -> Iterator[VectorEnvironment]:
    """As many environments over as many processes, by default one per core; a single worker is this process itself."""
    workers = max(1, min(workers or os.cpu_count() or 1, count))
    share = -(-count // workers)
    parts: list[_Local | _Worker] = []
    try:
        with single_threaded(), hidden_main():
            for _ in range(workers):
                parts.append(_Worker(kind, meta, share) if workers > 1 else _Local(_Group(kind, meta, share)))
        yield VectorEnvironment(parts)
    finally:
        for part in parts:
            part.close()
