"""Trajectories as a map-style torch dataset. Torch is imported here and nowhere else in `data`: it takes seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Trajectories


class Windows(Dataset[dict[str, Tensor]]):
    """All windows of H states that stay inside one episode, or all transitions, in row order.

    A window is `observations` (H, O), and `actions` (H - 1, A) and `rewards` (H - 1,) where the data has them. A
    transition is `observations` (O,), `actions` (A,), `rewards` (), `next_observations` (O,) and, where it is known,
    `terminated` (): the next state is terminal.

    Rows are read when they are asked for: memory-mapped data stays on disk, and worker processes map the same file.
    """

    def __init__(self, data: Trajectories, horizon: int | None = None) -> None:
        if horizon is not None and horizon < 1:
            raise BadInput(f"a window needs at least 1 state, got {horizon}")
        self.data, self.horizon = data, horizon
        self._ends = data.window_ends(horizon or 2)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, number: int) -> dict[str, Tensor]:
        if not -len(self) <= number < len(self):
            raise IndexError(f"item {number} of {len(self)}")
        row = int(self.data.numbered_rows(self.horizon or 2, self._ends, np.asarray(number % len(self))))
        return self._transition(row) if self.horizon is None else self._window(row, self.horizon)

    def _window(self, row: int, horizon: int) -> dict[str, Tensor]:
        item = {"observations": _tensor(self.data.observations[row : row + horizon])}
        return item | {name: _tensor(values[row : row + horizon - 1]) for name, values in self._steps()}

    def _transition(self, row: int) -> dict[str, Tensor]:
        item = {"observations": _tensor(self.data.observations[row])}
        item |= {name: _tensor(values[row]) for name, values in self._steps()}
        item["next_observations"] = _tensor(self.data.observations[row + 1])
        if self.data.terminated is not None:
            episode = self.data.episode_of(np.asarray(row))
            item["terminated"] = torch.tensor(
                bool(self.data.terminated[episode] and row + 2 == self.data.offsets[episode + 1])
            )
        return item

    def _steps(self) -> list[tuple[str, Array]]:
        return [(name, values) for name, values in self.data.arrays() if name in ("actions", "rewards")]

    def __getstate__(self) -> dict[str, Any]:
        fields = {name: _by_file(values) for name, values in self.data.arrays()}
        rest = {name: getattr(self.data, name) for name in ("offsets", "terminated", "meta")}
        return {"fields": fields | rest, "horizon": self.horizon}

    def __setstate__(self, state: dict[str, Any]) -> None:
        fields: dict[str, Any] = state["fields"]
        for name, value in fields.items():
            fields[name] = value.open() if isinstance(value, _Mapped) else value
        self.__init__(Trajectories(**fields), state["horizon"])  # type: ignore[misc]


def _tensor(values: Any) -> Tensor:
    """A copy: the arrays are read-only, tensors are not."""
    return torch.from_numpy(np.array(values))


@dataclass(frozen=True)
class _Mapped:
    """Where in a file a memory-mapped array is."""

    path: str
    dtype: np.dtype[Any]
    offset: int
    shape: tuple[int, ...]

    def open(self) -> Array:
        return np.asarray(np.memmap(self.path, self.dtype, "r", self.offset, self.shape))


def _by_file(values: Array) -> Array | _Mapped:
    """A memory-mapped array as its place in the file, so that pickling does not copy it; any other as it is."""
    owner: Any = values
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if not isinstance(owner, np.memmap) or owner.filename is None or not values.flags.c_contiguous:
        return values
    offset = owner.offset + values.ctypes.data - owner.ctypes.data
    return _Mapped(str(owner.filename), values.dtype, offset, values.shape)
