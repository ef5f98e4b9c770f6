"""Hypothesis strategies and small datasets that several tests use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.datasets import streets

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
PERIODS = [360.0, 2 * np.pi]
COLUMN_NAMES = st.text(max_size=6) | st.sampled_from(
    ["x", "y", "reward", "action_0", "episode", "t", "a,b", 'say "v"', "#"]
)


def numbers(shape: tuple[int, ...], dtype: type = np.float32) -> st.SearchStrategy[Array]:
    """Arrays of finite numbers of all magnitudes."""
    bits: Literal[32, 64] = 32 if dtype is np.float32 else 64
    return hnp.arrays(dtype, shape, elements=st.floats(width=bits, allow_nan=False, allow_infinity=False))


@st.composite
def metas(draw: st.DrawFn, columns: int) -> Meta:
    """What a dataset with this many observation columns may say about itself."""
    names = st.lists(COLUMN_NAMES, min_size=columns, max_size=columns).map(tuple)
    position = draw(st.lists(st.integers(0, columns - 1), max_size=2).map(tuple))
    origin = st.just((48.137154, 11.576124)) if len(position) == 2 else st.nothing()
    return Meta(
        dataset=draw(st.none() | st.text(max_size=8) | st.just("pointmaze-giant-stitch-v0")),
        environment=draw(st.none() | st.text(max_size=8)),
        columns=draw(st.just(()) | names),
        position=position,
        angles=draw(st.lists(st.tuples(st.integers(0, columns - 1), st.sampled_from(PERIODS)), max_size=1).map(tuple)),
        quaternions=draw(st.lists(st.integers(0, columns - 1), max_size=1).map(tuple)),
        geo_origin=draw(st.just(()) | origin),
        maze=draw(st.lists(st.text("#. \n", max_size=4), max_size=2).map(tuple)),
        provenance=draw(st.lists(st.dictionaries(st.text(max_size=4), JSON, max_size=2), max_size=2).map(tuple)),
    )


@st.composite
def trajectories(draw: st.DrawFn, shortest: int = 1) -> Trajectories:
    """Datasets of a few short episodes, with and without each optional array."""
    lengths = draw(st.lists(st.integers(shortest, 6), min_size=1, max_size=5))
    rows, columns = sum(lengths), draw(st.integers(1, 3))

    def optional(shape: tuple[int, ...], dtype: type = np.float32) -> Array | None:
        return draw(st.none() | numbers(shape, dtype))

    return Trajectories(
        observations=draw(numbers((rows, columns))),
        offsets=offsets_from_lengths(lengths),
        actions=optional((rows, draw(st.integers(1, 2)))),
        rewards=optional((rows,)),
        qpos=optional((rows, draw(st.integers(1, 2)))),
        qvel=optional((rows, draw(st.integers(1, 2)))),
        times=optional((rows,), np.float64),
        source=draw(st.none() | hnp.arrays(np.int64, rows, elements=st.integers(0, 2**53))),
        scores=optional((rows, 3)),
        terminated=draw(st.none() | hnp.arrays(bool, len(lengths))),
        meta=draw(metas(columns)),
    )


def dataset(lengths: tuple[int, ...] = (3, 2, 4), columns: int = 2, **changes: Any) -> Trajectories:
    """A fixed dataset with every array present, except where `changes` says otherwise."""
    rng, rows = np.random.default_rng(0), sum(lengths)
    fields: dict[str, Any] = {
        "observations": rng.normal(size=(rows, columns)),
        "actions": rng.normal(size=(rows, 2)),
        "rewards": rng.normal(size=rows),
        "qpos": rng.normal(size=(rows, 3)),
        "qvel": rng.normal(size=(rows, 3)),
        "times": np.arange(rows) * 0.1,
        "source": np.arange(rows) + 2**40,
        "scores": rng.normal(size=(rows, 3)),
        "generated": rng.integers(3, size=rows),
        "terminated": np.arange(len(lengths)) % 2 == 0,
        "meta": Meta(dataset="pointmaze-giant-stitch-v0", position=(0, 1), provenance=({"step": "made", "seed": 0},)),
    }
    return Trajectories(offsets=offsets_from_lengths(lengths), **(fields | changes))


def drives(files: int = 8) -> Trajectories:
    """Drives in streets, in kilometres and degrees; actions are the turn and the change of speed to the next row."""
    data = streets.make(files, irregular=False)
    change = np.diff(data.observations[:, 2:], axis=0, append=data.observations[-1:, 2:])
    turn = (change[:, 0] + 180) % 360 - 180
    kilometres = data.observations * np.array([1e-3, 1e-3, 1, 1], dtype=np.float32)
    return replace(
        data, observations=kilometres, actions=np.clip(np.stack([turn / 45, change[:, 1] / 2], axis=1), -1, 1)
    )
