"""`Trajectories`: the one data type that crosses every stage, with its windows, goals and normaliser.

Shape letters used in the whole package: B batch, N rows, E episodes, T time, H segment (states), S stitches,
K candidates, M memory, O observation, A action, Z latent, P position columns.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from scots.core.config import Config
from scots.core.errors import BadInput

if TYPE_CHECKING:
    from scots.data.torch_dataset import Windows

Array = npt.NDArray[Any]

ROW_FIELDS: dict[str, tuple[int, type]] = {
    "observations": (2, np.float32),
    "actions": (2, np.float32),
    "rewards": (1, np.float32),
    "qpos": (2, np.float32),
    "qvel": (2, np.float32),
    "times": (1, np.float64),
    "source": (1, np.int64),
    "scores": (2, np.float32),
    "generated": (1, np.uint8),
}
"""Arrays with one entry per row: name -> (rank, dtype). Formats store these; all but the first may be absent."""


@dataclass(frozen=True)
class Meta(Config):
    """What is known about a dataset beyond its numbers; travels inside every file that has room for it."""

    dataset: str | None = None  # id, such as "pointmaze-giant-stitch-v0"
    environment: str | None = None  # id of the environment the data came from, if any
    columns: tuple[str, ...] = ()  # names of the observation columns
    position: tuple[int, ...] = ()  # observation columns that are the position: what is drawn, planned and covered
    quaternions: tuple[int, ...] = ()  # first column of each unit quaternion
    angles: tuple[tuple[int, float], ...] = ()  # columns that wrap around, each with its period: 360 or 2 pi
    geo_origin: tuple[float, ...] = ()  # latitude and longitude of position (0, 0), whose unit is then the metre
    maze: tuple[str, ...] = ()  # text of the maze file, for a custom maze
    provenance: tuple[dict[str, Any], ...] = ()  # one entry per step that made this data, oldest first

    @property
    def origin(self) -> str:
        """Where the data came from, step by step: "collected here, augmented here"."""
        return ", ".join(str(step.get("origin", "unknown")) for step in self.provenance) or "unknown"

    @property
    def position_angles(self) -> tuple[tuple[int, float], ...]:
        """The angles among the position columns, numbered within the position."""
        return tuple((self.position.index(column), period) for column, period in self.angles if column in self.position)

    @property
    def augmentation(self) -> dict[str, Any] | None:
        """The provenance entry of the augmenter that made this data, or None for data as it was recorded."""
        return next((step for step in reversed(self.provenance) if "augmenter" in step), None)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories:
    """Episodes as flat rows plus offsets. Frozen; selecting gives views; arrays may be memory maps.

        offsets = [0, 5, 9]           episode 0         episode 1
        row                        0  1  2  3  4      5  6  7  8
        observations              s0 s1 s2 s3 s4     s0 s1 s2 s3
        actions                   a0 a1 a2 a3  -     a0 a1 a2  -

    `actions[t]` leads from `observations[t]` to `observations[t + 1]`. The last row of an episode has no successor:
    its action, if the source recorded one, belongs to no transition. Boundaries are `offsets` and nothing else.
    """

    observations: Array  # (N, O)
    offsets: Array  # (E + 1,)
    actions: Array | None = None  # (N, A)
    rewards: Array | None = None  # (N,)
    qpos: Array | None = None  # (N, Q)
    qvel: Array | None = None  # (N, V)
    times: Array | None = None  # (N,) seconds
    source: Array | None = None  # (N,) lineage of stitched data: the row of the source dataset each row came from
    scores: Array | None = None  # (N, 3) lineage: progress, novelty and score of the segment each row came with
    generated: Array | None = None  # (N,) lineage: the draw of refinement that made each state; 0 is as recorded
    terminated: Array | None = None  # (E,) the episode ended in a terminal state, not by a time limit
    meta: Meta = field(default_factory=Meta)

    def __post_init__(self) -> None:
        self._freeze("offsets", np.asarray(self.offsets, dtype=np.int64))
        if self.offsets.ndim != 1 or len(self.offsets) < 2 or self.offsets[0] != 0:
            raise BadInput("offsets: expected [0, ..., rows] with at least one episode")
        empty = np.flatnonzero(np.diff(self.offsets) < 1)
        if empty.size:
            raise BadInput(f"episode {empty[0]} is empty: every episode needs at least one row")
        for name, (rank, dtype) in ROW_FIELDS.items():
            if (values := getattr(self, name)) is not None:
                self._freeze(name, _checked(name, values, rank, dtype, int(self.offsets[-1])))
        if self.terminated is not None:
            self._freeze("terminated", _checked("terminated", self.terminated, 1, bool, len(self)))
        columns = self.observations.shape[1]
        if self.meta.columns and len(self.meta.columns) != columns:
            raise BadInput(f"meta names {len(self.meta.columns)} columns, observations have {columns}")
        if any(not 0 <= column < columns for column in self.meta.position):
            raise BadInput(f"position columns {self.meta.position} are outside the {columns} observation columns")
        if self.meta.geo_origin and (len(self.meta.geo_origin), len(self.meta.position)) != (2, 2):
            raise BadInput(f"geo_origin {self.meta.geo_origin} needs two position columns, got {self.meta.position}")
        if any(not (0 <= column < columns and period > 0) for column, period in self.meta.angles):
            raise BadInput(f"angles {self.meta.angles}: expected columns below {columns}, each with a positive period")

    def _freeze(self, name: str, values: Array) -> None:
        view = values.view()
        view.flags.writeable = False
        object.__setattr__(self, name, view)

    def __len__(self) -> int:
        """Number of episodes E."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        shape = f"{len(self)} episodes, {self.rows} rows, {self.observations.shape[1]} observation columns"
        present = [name for name in ROW_FIELDS if getattr(self, name) is not None][1:]
        return (
            f"Trajectories({self.meta.dataset or 'unnamed'}: {shape}{', with ' if present else ''}{', '.join(present)})"
        )

    @property
    def rows(self) -> int:
        """Number of rows N."""
        return int(self.offsets[-1])

    @property
    def lengths(self) -> Array:
        """States per episode (E,)."""
        return np.diff(self.offsets)

    @property
    def positions(self) -> Array:
        """The position columns of every row (N, P); a view where the columns are neighbours."""
        columns = self.meta.position
        if columns and columns == tuple(range(columns[0], columns[0] + len(columns))):
            return self.observations[:, columns[0] : columns[0] + len(columns)]
        return self.observations[:, list(columns)]

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """The row arrays that are present, by name, `observations` first."""
        for name in ROW_FIELDS:
            if (values := getattr(self, name)) is not None:
                yield name, values

    def episodes(self) -> Iterator[Self]:
        """Each episode as a `Trajectories` of one."""
        for episode in range(len(self)):
            yield self[episode : episode + 1]

    def __getitem__(self, episodes: slice) -> Self:
        """A run of episodes as views, no copying: `data[:100]`."""
        first, stop, step = episodes.indices(len(self))
        if step != 1 or stop <= first:
            raise IndexError(f"expected a non-empty run of episodes, got {episodes}")
        begin, end = self.offsets[first], self.offsets[stop]
        changes: dict[str, Any] = {name: values[begin:end] for name, values in self.arrays()}
        changes["offsets"] = self.offsets[first : stop + 1] - begin
        if self.terminated is not None:
            changes["terminated"] = self.terminated[first:stop]
        return dataclasses.replace(self, **changes)

    def select(self, episodes: Sequence[int] | Array) -> Self:
        """These episodes in this order; a run of neighbours is a view, anything else a copy."""
        chosen = np.asarray(episodes, dtype=np.int64)
        if chosen.size and np.array_equal(chosen, np.arange(chosen[0], chosen[0] + len(chosen))):
            return self[int(chosen[0]) : int(chosen[-1]) + 1]
        rows = np.concatenate([np.arange(self.offsets[e], self.offsets[e + 1]) for e in chosen])
        changes: dict[str, Any] = {name: values[rows] for name, values in self.arrays()}
        changes["offsets"] = offsets_from_lengths(self.lengths[chosen])
        if self.terminated is not None:
            changes["terminated"] = self.terminated[chosen]
        return dataclasses.replace(self, **changes)

    def with_meta(self, **changes: Any) -> Self:
        """The same rows with some fields of `meta` replaced."""
        return dataclasses.replace(self, meta=dataclasses.replace(self.meta, **changes))

    def only_positions(self) -> Self:
        """The same episodes with the position columns as observations and nothing else."""
        meta = dataclasses.replace(
            self.meta,
            columns=tuple(self.meta.columns[column] for column in self.meta.position) if self.meta.columns else (),
            position=tuple(range(len(self.meta.position))),
            quaternions=(),
            angles=self.meta.position_angles,
        )
        return type(self)(np.ascontiguousarray(self.positions), self.offsets, times=self.times, meta=meta)

    def fingerprint(self) -> str:
        """Sixteen hex digits of all that a model may learn from: episodes, rows, terminations, position columns."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for name in ("offsets", "observations", "actions", "rewards", "terminated"):
            if (values := getattr(self, name)) is not None:
                digest.update(f"{name} {values.shape} {values.dtype}".encode())
                digest.update(np.ascontiguousarray(values).data)
        digest.update(f"position {[int(column) for column in self.meta.position]}".encode())
        if self.meta.angles:
            digest.update(f"angles {self.meta.angles}".encode())
        return digest.hexdigest()

    def save(self, path: str | Path, format: str | None = None) -> None:
        """Write to a file or folder; the format follows from the name: .npz, .hdf5, .csv, .parquet, no suffix."""
        from scots.data import formats  # a convenience that reaches upwards; no other code here knows of files

        formats.write(self, Path(path), format)

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        *,
        episode: str | Sequence[str] | None = None,
        time: str | Sequence[str] | None = None,
        position: str | Sequence[str] | None = None,
        state: str | Sequence[str] | None = None,
        actions: str | Sequence[str] | None = None,
        **others: Any,
    ) -> Trajectories:
        """The episodes of a pandas frame. Columns are named one by one or as "x,y"; those not named are guessed.

        `others` are further fields of `scots.data.choices.Choices`: ignore, angles, every, gap. What `to_pandas` made
        comes back exactly.
        """
        from scots.data.choices import Choices
        from scots.data.formats.frames import from_frame

        named = {"episode": episode, "time": time, "position": position, "state": state, "actions": actions}
        for role, names in named.items():
            others[role] = names if names is None or isinstance(names, str) else ",".join(names)
        return from_frame(frame, Choices(**others))

    def to_pandas(self) -> Any:
        """A pandas frame with one row per state: episode, time, observations, actions and whatever else is present."""
        from scots.data.formats.frames import to_frame

        return to_frame(self)

    def to_torch(self, horizon: int | None = None) -> Windows:
        """A map-style torch dataset for a DataLoader: windows of `horizon` states, or without it transitions."""
        from scots.data.torch_dataset import Windows

        return Windows(self, horizon)

    def equals(self, other: Trajectories) -> bool:
        """Same rows, episodes and meta."""
        names = [*ROW_FIELDS, "offsets", "terminated"]
        pairs = [(getattr(self, name), getattr(other, name)) for name in names]
        return self.meta == other.meta and all(
            (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs
        )

    # ------------------------------------------------------------------------------------------------ rows and windows

    def episode_of(self, rows: Array) -> Array:
        """The episode each row belongs to."""
        return np.searchsorted(self.offsets, rows, side="right") - 1

    def last_row_of(self, rows: Array) -> Array:
        """The last row of the episode each row belongs to."""
        return self.offsets[self.episode_of(rows) + 1] - 1

    def window_starts(self, horizon: int) -> Array:
        """First rows of all windows of `horizon` states that stay inside one episode (W,), in row order.

        An episode of L states has L - horizon + 1 windows. Windows of two states are the transitions.
        """
        if horizon < 1:
            raise BadInput(f"a window needs at least 1 state, got {horizon}")
        counts = np.maximum(self.lengths - horizon + 1, 0)
        ends = np.cumsum(counts)
        starts = np.empty(ends[-1], dtype=np.int64)  # filled in place: 8 bytes a window, no temporary of that size
        for episode in np.flatnonzero(counts):
            first = self.offsets[episode]
            starts[ends[episode] - counts[episode] : ends[episode]] = np.arange(first, first + counts[episode])
        return starts

    def random_rows(self, horizon: int, size: int, rng: np.random.Generator) -> Array:
        """First rows of windows of `horizon` states, drawn uniformly from all of them without listing them (B,)."""
        ends = self.window_ends(horizon)
        return self.numbered_rows(horizon, ends, rng.integers(ends[-1], size=size))

    def window_ends(self, horizon: int) -> Array:
        """How many windows of `horizon` states there are up to the end of each episode (E,); at least one in all."""
        if horizon not in self._window_ends:
            ends = np.cumsum(np.maximum(self.lengths - horizon + 1, 0))
            if ends[-1] == 0:
                raise BadInput(f"no episode has {horizon} states; the longest has {self.lengths.max()}")
            self._window_ends[horizon] = ends
        return self._window_ends[horizon]

    @cached_property
    def _window_ends(self) -> dict[int, Array]:
        """What `window_ends` has counted: every batch asks for it, and there may be millions of episodes."""
        return {}

    def numbered_rows(self, horizon: int, ends: Array, numbers: Array) -> Array:
        """First rows of the windows of these numbers, which count in row order (B,)."""
        episode = np.searchsorted(ends, numbers, side="right")
        return self.offsets[episode + 1] - horizon + 1 - (ends[episode] - numbers)

    def windows(self, starts: Array, horizon: int) -> Array:
        """Observations of the windows that begin at these rows (B, H, O)."""
        return self.observations[np.asarray(starts)[:, None] + np.arange(horizon)]


def _checked(name: str, values: Array, rank: int, dtype: type, length: int) -> Array:
    array = np.asarray(values)
    if array.dtype == object:
        raise BadInput(f"{name}: object arrays are not read; store plain numbers")
    if array.ndim != rank:
        raise BadInput(f"{name}: expected rank {rank}, got shape {array.shape}")
    if len(array) != length:
        raise BadInput(f"{name}: {len(array)} entries where {length} were expected")
    if array.dtype.kind not in "biuf":
        raise BadInput(f"{name}: expected numbers, got {array.dtype}")
    return array.astype(dtype, copy=False)


def concat(parts: Sequence[Trajectories]) -> Trajectories:
    """All episodes of the parts in order. An optional array is kept if every part has it; meta is the first's."""

    def joined(name: str) -> Array | None:
        arrays = [getattr(part, name) for part in parts]
        return None if any(array is None for array in arrays) else np.concatenate(arrays)

    fields: dict[str, Any] = {name: joined(name) for name in [*ROW_FIELDS, "terminated"]}
    offsets = offsets_from_lengths(np.concatenate([part.lengths for part in parts]))
    return Trajectories(offsets=offsets, meta=parts[0].meta, **fields)


def offsets_from_lengths(lengths: Sequence[int] | Array) -> Array:
    """Episode lengths (E,) -> offsets (E + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def offsets_from_last(is_last: Array) -> Array:
    """Flags that mark each episode's last row (N,) -> offsets; rows after the last flag are an episode too."""
    ends = np.flatnonzero(is_last) + 1
    if not ends.size or ends[-1] != len(is_last):
        ends = np.append(ends, len(is_last))
    return np.concatenate([[0], ends])


# ------------------------------------------------------------------------------------------------------------- goals


@dataclass(frozen=True)
class GoalMix(Config):
    """Where goals come from: probabilities of the state itself, a later state of its episode, any state."""

    current: float
    trajectory: float
    random: float
    geometric: bool = True  # later states by a geometric law of the discount; otherwise uniform over what is left

    def __post_init__(self) -> None:
        if (
            abs(self.current + self.trajectory + self.random - 1) > 1e-6
            or min(self.current, self.trajectory, self.random) < 0
        ):
            raise BadInput(f"goal probabilities must be non-negative and sum to 1: {self}")


def sample_goals(data: Trajectories, rows: Array, mix: GoalMix, discount: float, rng: np.random.Generator) -> Array:
    """A goal row for each row: itself, a future row of its episode (never past its end), or any row of the data."""
    last = data.last_row_of(rows)
    if mix.geometric:
        future = np.minimum(rows + rng.geometric(1 - discount, size=len(rows)), last)
    else:
        future = rng.integers(np.minimum(rows + 1, last), last, endpoint=True)
    anywhere = rng.integers(data.rows, size=len(rows))
    draw = rng.random(len(rows))
    return np.where(draw < mix.current, rows, np.where(draw < mix.current + mix.trajectory, future, anywhere))


# -------------------------------------------------------------------------------------------------------- normaliser


@dataclass(frozen=True, eq=False)
class Normalizer:
    """Per-column Gaussian scaling; a constant column is only centred."""

    mean: Array
    std: Array

    @classmethod
    def fit(cls, values: Array) -> Self:
        """Mean and standard deviation of each column (N, O), summed in double precision a block at a time."""
        if len(values) == 0:
            raise BadInput("a normaliser needs at least one row")
        blocks = range(0, len(values), 1 << 18)
        mean = sum(values[b : b + (1 << 18)].sum(axis=0, dtype=np.float64) for b in blocks) / len(values)
        squares = (np.square(values[b : b + (1 << 18)] - mean).sum(axis=0) for b in blocks)
        std = np.sqrt(sum(squares) / len(values)).astype(np.float32)
        return cls(mean=np.asarray(mean, dtype=np.float32), std=np.where(std > 0, std, np.float32(1)))

    def normalize(self, values: Array) -> Array:
        """Data units -> zero mean, unit variance."""
        return (values - self.mean) / self.std

    def unnormalize(self, values: Array) -> Array:
        """The inverse of `normalize`."""
        return values * self.std + self.mean
