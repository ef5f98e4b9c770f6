"""The controller's rule against one written as a plain loop, and what it gives to the policy."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data.trajectories import Array
from scots.evaluation.control import GoalController, PlanFollowing, PointPolicy, SubgoalController, execution_of

POSITION = (3, 1)  # of four observation columns


class RandomPlanner:
    """Outlines and what lies between drawn as plain noise around the straight line."""

    def __init__(self, stretches: int, *spacings: int) -> None:
        self.stretches, self.spacings, self.horizon = stretches, spacings, spacings[0] * stretches + 1
        self.filled = Counter()

    def outline(self, start: Array, goal: Array, rng: Sequence[np.random.Generator]) -> Array:
        return self.between(np.stack([start, goal], axis=1), self.stretches, rng)

    def infill(self, ends: Array, spacing: int, rng: Sequence[np.random.Generator]) -> Array:
        self.filled[spacing] += len(ends)
        coarse = self.spacings[self.spacings.index(spacing) - 1]
        return self.between(ends, coarse // spacing, rng)

    def between(self, ends: Array, stretches: int, rng: Sequence[np.random.Generator]) -> Array:
        assert len(ends) == len(rng)
        assert np.isfinite(ends).all()
        share = np.linspace(0, 1, stretches + 1, dtype=np.float32)[None, :, None]
        points = ends[:, :1] * (1 - share) + ends[:, 1:] * share
        points += np.stack([one.normal(0, 0.5, points.shape[1:]) for one in rng])
        points[:, [0, -1]] = ends
        return points.astype(np.float32)


class Echo:
    """A policy whose action is the goal it was given."""

    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        return goals.copy()


def naive_goals(planner: RandomPlanner, execution: PlanFollowing, seed: int, path: Array, goal: Array) -> list[Array]:
    """The rule for one episode, one step at a time, with every plan filled in from end to end."""
    seeds, given, plans = Seeds(seed), [], 0
    columns = list(POSITION)
    for step, observation in enumerate(path):
        if step == 0 or (execution.replan_every > 0 and step % execution.replan_every == 0):
            plans += 1
            ends = observation[None, columns], goal[None, columns]
            plan = planner.outline(*ends, [seeds.stream("waypoints", plans)])[0]
            for fine in planner.spacings[1:]:
                name = ("infill",) if fine == 1 else ("waypoints", fine)
                streams = [seeds.stream(*name, plans, n) for n in range(len(plan) - 1)]
                pieces = [planner.infill(plan[None, n : n + 2], fine, [own])[0] for n, own in enumerate(streams)]
                plan = np.concatenate([*(piece[:-1] for piece in pieces), plan[-1:]])
            index = min(execution.lookahead, len(plan) - 1)
        elif np.linalg.norm(observation[columns] - plan[index]) <= execution.goal_tolerance:
            index = min(index + execution.lookahead, len(plan) - 1)
        wanted = observation.copy()
        wanted[columns] = plan[index]
        given.append(wanted)
    return given


@given(
    st.integers(0, 1000),
    st.integers(2, 5),
    st.sampled_from([(1,), (2, 1), (5, 1), (6, 2, 1), (12, 6, 3, 1)]),
    st.sampled_from([0, 1, 3, 7]),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.5, 2.0, 100.0]),
    st.booleans(),
)
def test_the_rule_is_that_of_a_plain_loop(seed, stretches, spacings, replan_every, lookahead, tolerance, whole):
    """Episodes that end at different times, plans filled in as needed: the same goals to the bit."""
    rng = np.random.default_rng(seed)
    execution, episodes, steps = PlanFollowing(replan_every, lookahead, tolerance), 5, 15
    planner = RandomPlanner(stretches, *spacings)
    paths = rng.normal(size=(steps, episodes, 4)).cumsum(axis=0).astype(np.float32)
    goals = rng.normal(size=(episodes, 4)).astype(np.float32)
    last = rng.integers(1, steps + 1, size=episodes)
    seeds = rng.integers(2**31, size=episodes).tolist()
    controller = SubgoalController(planner, Echo(), execution, POSITION)
    controller.whole = whole
    controller.begin(seeds)
    given = [[] for _ in range(episodes)]
    for step in range(steps):
        running = np.flatnonzero(last > step)
        if len(running):
            wanted = controller.act(running, paths[step][running], goals[running])
            for row, episode in enumerate(running):
                given[episode].append(wanted[row])
    for episode in range(episodes):
        expected = naive_goals(planner, execution, seeds[episode], paths[: last[episode], episode], goals[episode])
        assert np.array_equal(given[episode], expected)


def test_only_what_is_walked_is_filled_in():
    """Who stays where he is needs one stretch between places of the outline, of eight, and two between waypoints."""
    planner, place = RandomPlanner(8, 125, 25, 1), np.zeros((8, 4), dtype=np.float32)
    controller = SubgoalController(planner, Echo(), PlanFollowing(50, 10, 0.0), POSITION)
    controller.begin(list(range(8)))
    for _ in range(100):
        controller.act(np.arange(8), place, place)
    assert planner.filled == {25: 8 * 2, 1: 8 * 2 * 2}
    assert controller.planned(np.arange(8)).tolist() == [2] * 8
    assert np.isnan(controller.plans(np.arange(8))).any()
    assert np.isfinite(controller.subgoals(np.arange(8))).all()


@pytest.mark.parametrize("lookahead", [1, 12, 13, 100])
def test_whole_plans_have_no_gaps(lookahead: int):
    """Also where the subgoals are places of the outline, or beyond its first stretch."""
    planner, place = RandomPlanner(3, 12, 4, 1), np.zeros((2, 4), dtype=np.float32)
    controller = SubgoalController(planner, Echo(), PlanFollowing(50, lookahead, 1.0), POSITION)
    controller.whole = True
    controller.begin([0, 1])
    controller.act(np.arange(2), place, place + 9)
    assert np.isfinite(controller.plans(np.arange(2))).all()
    assert planner.filled == {4: 2 * 3, 1: 2 * 9}


def test_what_all_need_soon_is_filled_in_at_once():
    """One episode enters an empty stretch at each step; the others, a step behind each other, are served with it."""
    planner, execution = RandomPlanner(40, 25, 1), PlanFollowing(0, 10, 100.0)
    controller = SubgoalController(planner, Echo(), execution, POSITION)
    controller.begin(list(range(10)))
    calls, infill = [], planner.infill
    planner.infill = lambda ends, spacing, rng: calls.append(len(ends)) or infill(ends, spacing, rng)
    places = np.zeros((10, 4), dtype=np.float32)
    for step in range(30):
        running = np.arange(min(step + 1, 10))  # each begins a step after the one before
        controller.act(running, places[running], places[running] + 9)
    assert len(calls) < sum(calls) / 4


def test_the_last_subgoal_is_the_goal_and_is_kept():
    planner, start, goal = (
        RandomPlanner(2, 4, 1),
        np.zeros((1, 4), dtype=np.float32),
        np.full((1, 4), 7, dtype=np.float32),
    )
    controller = SubgoalController(planner, Echo(), PlanFollowing(0, 3, 100.0), POSITION)
    controller.begin([0])
    subgoals = [controller.act(np.array([0]), start, goal)[0, list(POSITION)] for _ in range(6)]
    assert [subgoal.tolist() == [7, 7] for subgoal in subgoals] == [False, False, True, True, True, True]


def test_goals_differ_from_observations_only_in_position():
    controller = SubgoalController(RandomPlanner(2, 4, 1), Echo(), PlanFollowing(), POSITION)
    controller.begin([0, 1])
    observations = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    wanted = controller.act(np.array([0, 1]), observations, observations + 5)
    assert np.array_equal(wanted[:, [0, 2]], observations[:, [0, 2]])
    assert (wanted[:, [1, 3]] != observations[:, [1, 3]]).all()


def test_new_episodes_forget_the_old():
    controller, place = SubgoalController(RandomPlanner(4, 4, 1), Echo(), PlanFollowing(), POSITION), np.zeros((2, 4))
    found = []
    for _ in range(2):
        controller.begin([5, 6])
        found.append([controller.act(np.array([0, 1]), place, place + 9) for _ in range(70)])
    assert np.array_equal(*found)


def test_a_policy_alone_heads_for_the_goal():
    controller = GoalController(Echo())
    controller.begin([0, 1])
    goals = np.arange(8.0).reshape(2, 4)
    assert np.array_equal(controller.act(np.array([0, 1]), np.zeros((2, 4)), goals), goals)
    assert controller.execution is None


def test_the_point_policy_heads_straight_and_is_clipped():
    observations, goals = np.zeros((3, 4)), np.array([[0, 9, 9, -9], [0, 0.1, 9, 0.02], [1, 0, 1, 0]])
    actions = PointPolicy(POSITION).act(observations, goals, np.random.default_rng(0))
    np.testing.assert_allclose(actions, [[-1, 1], [0.1, 0.5], [0, 0]])


def test_reference_settings():
    assert execution_of("antmaze-giant-stitch-v0") == PlanFollowing(50, 5, 3.0)
    assert (
        execution_of("antmaze-large-explore-v0")
        == execution_of("pointmaze-giant-stitch-v0")
        == PlanFollowing(50, 10, 1.0)
    )


@pytest.mark.parametrize("changes", [{"replan_every": -1}, {"lookahead": 0}, {"goal_tolerance": -1.0}])
def test_impossible_settings_are_named(changes):
    with pytest.raises(BadInput, match=next(iter(changes))):
        PlanFollowing(**changes)
