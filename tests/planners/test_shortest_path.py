"""Planners without diffusion, on data whose shortest paths are known."""

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta, Trajectories
from scots.planners.landmarks import Landmarks
from scots.planners.shortest_path import LandmarkPath, ShortestPathConfig, SupportPath

PACE = 0.5
LEG = np.arange(0, 20, PACE)


def around_a_corner() -> Trajectories:
    """Walks along the two legs of an L: nobody was ever near the line between its ends."""
    out = np.stack([LEG, np.zeros_like(LEG)], axis=1)
    up = np.stack([np.full_like(LEG, 20.0), LEG], axis=1)
    path = np.concatenate([out, up]).astype(np.float32)
    return Trajectories(np.concatenate([path, path[::-1]]), [0, 80, 160], meta=Meta(position=(0, 1)))


class AlongTheL:
    """The latent is the distance along both legs, in steps."""

    def encode(self, positions: Array) -> Array:
        return (positions.sum(axis=1) / PACE)[:, None]

    def distance(self, start: Array, goal: Array) -> Array:
        return np.abs(start - goal)[..., 0]


START, GOAL = np.array([[1.0, 0.0]], np.float32), np.array([[20.0, 18.0]], np.float32)


def off_the_path(positions: Array) -> float:
    """The farthest that positions are from both legs."""
    x, y = positions.T
    return float(np.minimum(np.abs(y), np.abs(x - 20)).max())


def planners() -> list[SupportPath | LandmarkPath]:
    data = around_a_corner()
    landmarks = LandmarkPath.for_data(ShortestPathConfig(), data)
    landmarks.encoder = AlongTheL()
    return [SupportPath.for_data(ShortestPathConfig(), data), landmarks]


@pytest.mark.parametrize("planner", planners(), ids=lambda planner: planner.name)
def test_the_plan_goes_around_the_corner_at_the_pace_of_the_data(planner: SupportPath | LandmarkPath):
    [plan] = planner.plan(START, GOAL, [0])
    np.testing.assert_array_equal(plan.positions[[0, -1]], np.concatenate([START, GOAL]))
    assert off_the_path(plan.positions) < 1.5
    lengths = np.linalg.norm(np.diff(plan.positions, axis=0), axis=1)
    assert lengths.max() <= PACE + 1e-5
    assert lengths.sum() == pytest.approx(37, abs=2)


def test_what_lies_halfway_is_found_as_by_a_loop():
    positions = around_a_corner().positions
    landmarks, encoder = Landmarks(positions, AlongTheL()), AlongTheL()
    rng = np.random.default_rng(0)
    ends = rng.choice(positions, size=(20, 2))
    for (start, goal), found in zip(ends, landmarks.halfway(ends), strict=True):
        a, b = encoder.encode(np.stack([start, goal]))
        farther = [max(abs(a - z)[0], abs(z - b)[0]) for z in encoder.encode(positions)]
        latent = encoder.encode(found[None])[0]
        assert max(abs(a - latent)[0], abs(latent - b)[0]) == pytest.approx(min(farther))


def test_landmarks_without_an_embedding_are_refused():
    planner = LandmarkPath.for_data(ShortestPathConfig(), around_a_corner())
    with pytest.raises(BadInput, match="this planner has none"):
        planner.plan(START, GOAL, [0])
