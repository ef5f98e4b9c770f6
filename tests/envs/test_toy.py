"""The toy corridor: its distances are exact, and its data obeys its dynamics."""

import numpy as np

from scots.datasets import toy as dataset
from scots.envs import toy


def test_distances_are_a_metric_of_single_steps():
    world = toy.ToyCorridor()
    distance = world.distances
    assert (distance == distance.T).all()
    assert (np.diag(distance) == 0).all()
    assert (distance[:, :, None] <= distance[:, None, :] + distance.T[None, :, :]).all()
    ones = np.argwhere(distance == 1)
    steps = np.abs(world.positions[ones[:, 0]] - world.positions[ones[:, 1]]).sum(axis=1)
    assert (steps == 1 / toy.STEPS_PER_CELL).all()


def test_distances_are_reached_by_walking():
    world = toy.ToyCorridor()
    rng = np.random.default_rng(0)
    for start, goal in rng.integers(len(world.nodes), size=(50, 2)):
        position, steps = world.positions[start], 0
        while (node := int(world.node_of(position))) != goal:
            position = world.step(position, np.array(world.towards(node, int(goal)), dtype=float))
            steps += 1
        assert steps == world.distances[start, goal]


def test_data_follows_the_dynamics_and_stays_near():
    data, world = dataset.make(episodes=20, seed=3), toy.ToyCorridor()
    for row in data.window_starts(2):
        assert (world.step(data.observations[row], data.actions[row]) == data.observations[row + 1]).all()
    nodes = world.node_of(data.observations)
    for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        farthest = world.distances[nodes[first], nodes[first:last]].max()
        assert abs(farthest - 4 * toy.STEPS_PER_CELL) <= 3  # four cells, and a little wandering


def test_same_seed_same_data():
    assert dataset.make(5, seed=1).equals(dataset.make(5, seed=1))
    assert not dataset.make(5, seed=1).equals(dataset.make(5, seed=2))
