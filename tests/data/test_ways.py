"""Recorded ways: what they hold, the shortest of them against a loop, and paths that are kept to the data."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.core.errors import BadInput
from scots.data import ways as module
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.data.ways import RecordedWays, walked

META = Meta(columns=("x", "y"), position=(0, 1))


def recorded(*paths: Array) -> Trajectories:
    return Trajectories(np.concatenate(paths), offsets_from_lengths([len(path) for path in paths]), meta=META)


def line(start: tuple[float, float], end: tuple[float, float], states: int = 21) -> Array:
    return np.linspace(start, end, states)


def corner(episodes: int = 6, noise: float = 0.05) -> Trajectories:
    """Along one side of a square and up the next, by episodes that each know only a part of it."""
    rng = np.random.default_rng(0)
    way = walked(np.array([(0, 0), (20, 0), (20, 20)], dtype=float), 1.0)
    parts = [way[start : start + 21] for start in np.linspace(0, len(way) - 21, episodes).astype(int)]
    return recorded(*(part + noise * rng.normal(size=part.shape) for part in parts))


def prices(ways: RecordedWays, near: Array) -> Array:
    """What it costs to go from every place to every other."""
    count, places = len(ways.places), ways.places.astype(float)
    moves = {tuple(move) for move in ways.moves.tolist()}
    found = np.full((count, count), np.inf)
    for a in range(count):
        for b in range(count):
            length = float(np.linalg.norm(places[a] - places[b]))
            away = min(1.0, np.linalg.norm(near - places[b], axis=1).min() / (10 * ways.step))
            if a != b and (length <= ways.reach or (a, b) in moves):
                found[a, b] = length * (1 + away)
            elif (b, a) in moves:
                found[a, b] = 4 * length * (1 + away)
    return found


@given(st.integers(0, 10_000))
def test_the_shortest_way_is_that_of_a_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(3, 8, 2))
    ways = RecordedWays.of(recorded(*(rng.uniform(-2, 2, size=2) + np.cumsum(own, axis=0) for own in steps)))
    start, goal = rng.uniform(-4, 4, size=(2, 2))
    near = walked(np.stack([start, goal]), 0.5)
    cost = prices(ways, near)
    first, last = (int(np.linalg.norm(ways.places - end, axis=1).argmin()) for end in (start, goal))
    least = np.where(np.arange(len(cost)) == first, 0.0, np.inf)
    for _ in cost:
        least = np.minimum(least, (least[:, None] + cost).min(axis=0))
    found = ways.shortest(start, goal, near)
    if found is None:
        assert least[last] == np.inf
        return
    numbers = [int(np.flatnonzero((ways.places == place).all(axis=1))[0]) for place in found]
    assert (numbers[0], numbers[-1]) == (first, last)
    assert sum(cost[a, b] for a, b in pairwise(numbers)) == pytest.approx(least[last], rel=1e-5)


def test_a_path_that_cuts_a_corner_is_led_around_it() -> None:
    ways = RecordedWays.of(corner())
    straight = walked(np.array([(3, 0), (20, 17)], dtype=float), 1.0)
    kept, replaced = ways.keep(straight)
    np.testing.assert_array_equal(kept[[0, -1]], straight[[0, -1]])
    assert (np.minimum(np.abs(kept[:, 1]), np.abs(kept[:, 0] - 20)) < 0.5).all()
    assert np.linalg.norm(np.diff(kept, axis=0), axis=1).max() < 2.5
    assert 34 <= np.linalg.norm(np.diff(kept, axis=0), axis=1).sum() <= 38  # 17 along each side
    assert replaced.mean() > 0.9
    assert ways.is_on(kept).all()


def test_a_path_on_the_data_stays_as_it_is() -> None:
    data = corner()
    ways = RecordedWays.of(data)
    for episode in data.episodes():
        kept, replaced = ways.keep(episode.positions)
        np.testing.assert_array_equal(kept, episode.positions)
        assert not replaced.any()


def test_where_no_way_leads_a_path_stays_as_it_is() -> None:
    ways = RecordedWays.of(recorded(line((0, 0), (20, 0)), line((0, 50), (20, 50))))
    across = walked(np.array([(5, 0), (5, 50)], dtype=float), 1.0)
    kept, replaced = ways.keep(across)
    np.testing.assert_array_equal(kept, across)
    assert not replaced.any()


def test_of_two_ways_the_one_near_the_path_is_taken_and_a_jump_is_none() -> None:
    upper = walked(np.array([(0, 0), (0, 10), (20, 10), (20, 0)], dtype=float), 1.0)
    lower = upper * [1, -1.2]  # a little longer
    jump = np.array([(0, 0), (0.5, 0), (19.5, 0), (20, 0)])  # as a receiver makes it when it was off for a while
    ways = RecordedWays.of(recorded(upper, lower, jump))
    above, below = (walked(np.array([(0, 0), (10, side * 8.0), (20, 0)]), 1.0) for side in (1, -1))
    assert ways.keep(above)[0][:, 1].max() > 9
    assert ways.keep(below)[0][:, 1].min() < -9


def test_a_way_may_be_taken_against_its_direction_only_where_there_is_no_other() -> None:
    one_way = line((0, 0), (40, 0), 21)  # two metres a step: places are joined by recorded steps alone
    ways = RecordedWays.of(recorded(one_way, line((0, 30), (40, 30), 21)))
    ways = RecordedWays(ways.places, ways.following, ways.moves, ways.step, 0.5, ways.threshold)
    forth, back = (ways.shortest(np.array(a), np.array(b), one_way) for a, b in [((0, 0), (40, 0)), ((40, 0), (0, 0))])
    assert forth is not None
    assert back is not None
    np.testing.assert_array_equal(forth, back[::-1])


def test_many_positions_are_thinned_and_still_lead_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_MAX_PLACES", 40)
    ways = RecordedWays.of(corner(episodes=40))
    assert len(ways.places) <= 40
    kept, _ = ways.keep(walked(np.array([(3, 0), (20, 17)], dtype=float), 1.0))
    assert (np.minimum(np.abs(kept[:, 1]), np.abs(kept[:, 0] - 20)) < ways.reach).all()
    ways.save(tmp_path / "ways.npz")
    read = RecordedWays.load(tmp_path / "ways.npz")
    for name in ("places", "following", "moves", "step", "reach", "threshold"):
        np.testing.assert_array_equal(getattr(read, name), getattr(ways, name))
    np.savez(tmp_path / "other.npz", places=ways.places)
    with pytest.raises(BadInput, match="'following' is missing"):
        RecordedWays.load(tmp_path / "other.npz")


def test_data_that_never_moves_has_ways() -> None:
    ways = RecordedWays.of(recorded(np.zeros((5, 2)), np.zeros((1, 2))))
    kept, replaced = ways.keep(np.zeros((3, 2), dtype=np.float32))
    assert kept.shape == (3, 2)
    assert not replaced.any()
