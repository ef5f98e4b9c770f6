"""The controller's rule against one written as a plain loop, and what it gives to the policy."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data.passage import PassageTimes
from scots.data.trajectories import Array
from scots.datasets.specs import SPECS
from scots.evaluation.control import GoalController, PlanFollowing, PointPolicy, SubgoalController
from scots.planners.base import CoarseToFine, Plan

POSITION = (3, 1)  # of four observation columns
TWO_STEPS_PER_UNIT = PassageTimes(np.array([0.0, 1.0]), np.array([0.0, 2.0]))


class NoiseBridge:
    """Noise around the straight line."""

    def __init__(self, tokens: int, spacing: int) -> None:
        self.tokens, self.spacing = tokens, spacing
        self.calls: list[int] = []

    def draw(self, ends: Array, rng: Sequence[np.random.Generator], delays: Array | None = None) -> Array:
        assert len(ends) == len(rng)
        assert np.isfinite(ends).all()
        self.calls.append(len(ends))
        share = np.linspace(0, 1, self.tokens, dtype=np.float32)[None, :, None]
        points = ends[:, :1] * (1 - share) + ends[:, 1:] * share
        points += np.stack([one.normal(0, 0.5, points.shape[1:]) for one in rng])
        points[:, [0, -1]] = ends
        return points.astype(np.float32)


def noise_planner(gaps: int, *spacings: int) -> CoarseToFine:
    """So many gaps of the first spacing; each further spacing fills the gaps of the one before."""
    between = [NoiseBridge(coarse // fine + 1, fine) for coarse, fine in pairwise(spacings)]
    return CoarseToFine([NoiseBridge(gaps + 1, spacings[0]), *between])


def filled(planner: CoarseToFine) -> Counter:
    """How many gaps each bridge below the first has filled, by its spacing."""
    return Counter({bridge.spacing: sum(bridge.calls) for bridge in planner.bridges[1:]})


def whole_plan(planner: CoarseToFine, ends: Array, seed: int) -> Array:
    """A plan filled in from end to end, gap by gap."""
    outline, *finer = planner.bridges
    plan, width = outline.draw(ends[None], [Seeds(seed).stream("outline")])[0], outline.spacing
    for bridge in finer:
        pieces = []
        for n in range(len(plan) - 1):
            stream = Seeds(seed).stream("fill in", bridge.spacing, n * width)
            pieces.append(bridge.draw(plan[None, n : n + 2], [stream])[0])
        plan, width = np.concatenate([*(piece[:-1] for piece in pieces), plan[-1:]]), bridge.spacing
    return plan


class Echo:
    """A policy whose action is the goal it was given."""

    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        return goals.copy()


def following_controller(planner: CoarseToFine, *following: float) -> SubgoalController:
    return SubgoalController(planner, Echo(), PlanFollowing(*following), POSITION)


def naive_goals(planner: CoarseToFine, following: PlanFollowing, seed: int, path: Array, goal: Array) -> list[Array]:
    """The rule for one episode, one step at a time, with every plan filled in from end to end."""
    given, plans, columns, deadline, leash = [], 0, list(POSITION), np.inf, np.inf
    plan, index = np.zeros((1, len(columns))), 0
    for step, observation in enumerate(path):
        away = np.linalg.norm(observation[columns] - plan[index])
        late = following.replan_late and step > deadline
        late |= following.replan_late == "or astray" and away > leash
        by_clock = following.replan_every > 0 and step % following.replan_every == 0
        if step == 0 or by_clock or late:
            plans += 1
            ends = np.stack([observation[columns], goal[columns]])
            plan = whole_plan(planner, ends, Seeds(seed).integer("plan", plans))
            index = min(following.lookahead, len(plan) - 1)
        elif away <= following.goal_tolerance:
            index = min(index + following.lookahead, len(plan) - 1)
        if step == 0 or by_clock or late or away <= following.goal_tolerance:
            distance = np.linalg.norm(observation[columns] - plan[index])
            deadline, leash = step + 2 * distance, distance + following.goal_tolerance
        wanted = observation.copy()
        wanted[columns] = plan[index]
        given.append(wanted)
    return given


@settings(max_examples=40)
@given(
    st.integers(0, 1000),
    st.integers(2, 5),
    st.sampled_from([(1,), (2, 1), (5, 1), (6, 2, 1), (12, 6, 3, 1)]),
    st.sampled_from([0, 1, 3, 7]),
    st.integers(1, 12),
    st.sampled_from([0.0, 0.5, 2.0, 100.0]),
    st.sampled_from([False, True, "or astray"]),
)
def test_the_rule_is_that_of_a_plain_loop(seed, gaps, spacings, replan_every, lookahead, tolerance, replan_late):
    """Episodes that end at different times, plans filled in as needed: the same goals to the bit."""
    rng = np.random.default_rng(seed)
    following, episodes, steps = PlanFollowing(replan_every, lookahead, tolerance, replan_late), 5, 15
    planner = noise_planner(gaps, *spacings)
    paths = rng.normal(size=(steps, episodes, 4)).cumsum(axis=0).astype(np.float32)
    goals = rng.normal(size=(episodes, 4)).astype(np.float32)
    last = rng.integers(1, steps + 1, size=episodes)
    seeds = rng.integers(2**31, size=episodes).tolist()
    controller = SubgoalController(planner, Echo(), following, POSITION, TWO_STEPS_PER_UNIT)
    controller.begin(seeds)
    given = [[] for _ in range(episodes)]
    for step in range(steps):
        running = np.flatnonzero(last > step)
        if len(running):
            wanted = controller.act(running, paths[step][running], goals[running])
            for row, episode in enumerate(running):
                given[episode].append(wanted[row])
    for episode in range(episodes):
        expected = naive_goals(planner, following, seeds[episode], paths[: last[episode], episode], goals[episode])
        assert np.array_equal(given[episode], expected)


def test_an_episode_alone_gets_what_it_gets_in_company():
    rng = np.random.default_rng(0)
    paths, goals = rng.normal(size=(2, 20, 6, 4)).astype(np.float32)
    seeds = list(range(6))

    def subgoals(chosen: list[int]) -> list[Array]:
        controller = following_controller(noise_planner(3, 6, 1), 7, 2, 1.0)
        controller.begin([seeds[n] for n in chosen])
        numbers = np.arange(len(chosen))
        return [controller.act(numbers, path[chosen], goals[0][chosen]) for path in paths]

    together = np.array(subgoals(seeds))
    for episode in seeds:
        assert np.array_equal(np.array(subgoals([episode]))[:, 0], together[:, episode])
    assert np.array_equal(np.array(subgoals(seeds[::-1])), together[:, ::-1])


@pytest.mark.parametrize(
    ("every", "plans"), [(0, [1, 1, 1, 1, 1, 1, 1]), (1, [1, 2, 3, 4, 5, 6, 7]), (3, [1, 1, 1, 2, 2, 2, 3])]
)
def test_plans_are_drawn_again_after_so_many_steps(every: int, plans: list[int]):
    controller, place = following_controller(noise_planner(2, 4, 1), every, 1, 0.0), np.zeros((1, 4), dtype=np.float32)
    controller.begin([0])
    counted, different = [], set()
    for _ in plans:
        controller.act(np.array([0]), place, place + 9)
        counted.append(controller.plan_count(0))
        different.add(controller.plan_of(0).positions[::4].tobytes())
    assert counted == plans
    assert len(different) == plans[-1]


def test_a_subgoal_is_so_many_steps_ahead_and_advances_once_a_step_where_it_is_reached():
    """A plan along a line, of one unit a step, and a tolerance of one and a half."""

    class Line:
        def plan(self, start: Array, goal: Array, seeds: Sequence[int]) -> list[Plan]:
            return [Plan(np.arange(13, dtype=np.float32)[:, None] * np.ones(2, dtype=np.float32), 0)]

    controller = SubgoalController(Line(), Echo(), PlanFollowing(0, 5, 1.5), POSITION)
    controller.begin([0])
    subgoals = []
    for at in (0, 0, 3.9, 4, 10, 10, 10):  # distances along the diagonal are longer by the root of two
        place = np.full((1, 4), at, dtype=np.float32)
        subgoals.append(float(controller.act(np.array([0]), place, place)[0, 3]))
    assert subgoals == [5, 5, 5, 10, 12, 12, 12]


def test_only_what_is_walked_is_filled_in():
    """Who stays where he is needs one gap of the outline, of eight, and two between waypoints."""
    planner, place = noise_planner(8, 125, 25, 1), np.zeros((8, 4), dtype=np.float32)
    controller = following_controller(planner, 50, 10, 0.0)
    controller.begin(list(range(8)))
    for _ in range(100):
        controller.act(np.arange(8), place, place)
    assert filled(planner) == {25: 8 * 2, 1: 8 * 2 * 2}
    assert [controller.plan_count(n) for n in range(8)] == [2] * 8
    assert np.isnan(controller.plan_of(0).positions).any()
    assert np.isfinite(controller.subgoals(np.arange(8))).all()


def test_a_plan_that_is_filled_in_as_walked_is_the_one_filled_in_at_once():
    walked, place = following_controller(noise_planner(3, 12, 4, 1), 0, 5, 100.0), np.zeros((1, 4), dtype=np.float32)
    walked.begin([3])
    for _ in range(10):
        walked.act(np.array([0]), place, place + 9)
    planner = noise_planner(3, 12, 4, 1)
    (plan,) = planner.plan(place[:, list(POSITION)], place[:, list(POSITION)] + 9, [Seeds(3).integer("plan", 1)])
    planner.fill_in([plan], [0], [36])
    assert np.isfinite(plan.positions).all()
    there = np.isfinite(walked.plan_of(0).positions)
    assert 0.5 < there.mean() < 1
    assert np.array_equal(walked.plan_of(0).positions[there], plan.positions[there])
    assert filled(planner) == {4: 3, 1: 9}


def test_what_all_need_soon_is_filled_in_at_once():
    """One episode enters an empty gap at each step; the others, a step behind each other, are served with it."""
    planner = noise_planner(40, 25, 1)
    controller = following_controller(planner, 0, 10, 100.0)
    controller.begin(list(range(10)))
    places = np.zeros((10, 4), dtype=np.float32)
    for step in range(30):
        running = np.arange(min(step + 1, 10))  # each begins a step after the one before
        controller.act(running, places[running], places[running] + 9)
    calls = planner.bridges[1].calls
    assert len(calls) < sum(calls) / 4


def test_the_last_subgoal_is_the_goal_and_is_kept():
    start, goal = np.zeros((1, 4), dtype=np.float32), np.full((1, 4), 7, dtype=np.float32)
    controller = following_controller(noise_planner(2, 4, 1), 0, 3, 100.0)
    controller.begin([0])
    subgoals = [controller.act(np.array([0]), start, goal)[0, list(POSITION)] for _ in range(6)]
    assert [subgoal.tolist() == [7, 7] for subgoal in subgoals] == [False, False, True, True, True, True]


def test_goals_differ_from_observations_only_in_position():
    controller = following_controller(noise_planner(2, 4, 1))
    controller.begin([0, 1])
    observations = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    wanted = controller.act(np.array([0, 1]), observations, observations + 5)
    assert np.array_equal(wanted[:, [0, 2]], observations[:, [0, 2]])
    assert (wanted[:, [1, 3]] != observations[:, [1, 3]]).all()


def test_new_episodes_forget_the_old():
    controller, place = following_controller(noise_planner(4, 4, 1)), np.zeros((2, 4))
    found = []
    for _ in range(2):
        controller.begin([5, 6])
        found.append([controller.act(np.array([0, 1]), place, place + 9) for _ in range(70)])
    assert np.array_equal(*found)


def test_a_planner_without_goals_is_told_that_there_are_none():
    class Ahead:
        def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
            assert goal is None
            return [
                Plan(one + np.arange(9, dtype=np.float32)[:, None], seed)
                for one, seed in zip(start, seeds, strict=True)
            ]

    controller = SubgoalController(Ahead(), Echo(), PlanFollowing(lookahead=4), POSITION)
    controller.begin([0, 1])
    wanted = controller.act(np.array([0, 1]), np.zeros((2, 4), dtype=np.float32), None)
    assert wanted.tolist() == [[0, 4, 0, 4]] * 2


def test_a_policy_alone_heads_for_the_goal():
    controller = GoalController(Echo())
    controller.begin([0, 1])
    goals = np.arange(8.0).reshape(2, 4)
    assert np.array_equal(controller.act(np.array([0, 1]), np.zeros((2, 4)), goals), goals)


def test_the_point_policy_heads_straight_and_is_clipped():
    observations, goals = np.zeros((3, 4)), np.array([[0, 9, 9, -9], [0, 0.1, 9, 0.02], [1, 0, 1, 0]])
    actions = PointPolicy(POSITION).act(observations, goals, np.random.default_rng(0))
    np.testing.assert_allclose(actions, [[-1, 1], [0.1, 0.5], [0, 0]])


def test_published_settings_at_profile_paper_and_ours_elsewhere():
    ant, explore, point = (
        SPECS[name] for name in ("antmaze-giant-stitch-v0", "antmaze-large-explore-v0", "pointmaze-giant-stitch-v0")
    )
    assert PlanFollowing.configure(ant, "paper") == PlanFollowing(50, 5, 3.0)
    assert PlanFollowing.configure(explore, "paper") == PlanFollowing(50, 10, 1.0)
    assert PlanFollowing.configure(point, "paper") == PlanFollowing(50, 10, 1.0)
    for profile in ("smoke", "laptop", None):
        assert PlanFollowing.configure(point, profile) == PlanFollowing(0, 10, 1.0, replan_late=True)


def test_an_episode_that_stands_still_is_given_a_new_plan_and_one_that_walks_is_not():
    """Two steps per unit: a subgoal 3 units away is late after 6 steps."""
    plans = {"walks": 0, "stands": 0}
    for kind, speed in (("walks", 0.75), ("stands", 0.0)):
        planner = noise_planner(4, 12)
        planner.bridges[0].draw = lambda ends, rng: np.linspace(ends[:, 0], ends[:, 1], 5, axis=1)
        following = PlanFollowing(0, 12, 0.1, replan_late=True)
        controller = SubgoalController(planner, Echo(), following, (0, 1), TWO_STEPS_PER_UNIT)
        controller.begin([0])
        goals, observation = np.array([[12.0, 0.0, 0.0, 0.0]]), np.zeros((1, 4))
        for _ in range(17):
            controller.act(np.array([0]), observation, goals)
            observation[0, 0] += speed
        plans[kind] = controller.plan_count(0)
    assert plans == {"walks": 1, "stands": 3}


@pytest.mark.parametrize(("replan_late", "plans"), [(True, 1), ("or astray", 2)])
def test_who_is_carried_away_from_a_subgoal_is_given_a_new_plan_before_it_is_late(replan_late, plans):
    """A subgoal 3 units away, due after 30 steps, with a tolerance of 2: farther away than 5 units is astray."""
    planner = noise_planner(4, 12)
    planner.bridges[0].draw = lambda ends, rng: np.linspace(ends[:, 0], ends[:, 1], 5, axis=1)
    slow = PassageTimes(np.array([0.0, 1.0]), np.array([0.0, 10.0]))
    controller = SubgoalController(planner, Echo(), PlanFollowing(0, 12, 2.0, replan_late), (0, 1), slow)
    controller.begin([0])
    counted = []
    for x in (0.0, -2.0, -2.1):
        controller.act(np.array([0]), np.array([[x, 0.0, 0.0, 0.0]]), np.array([[12.0, 0.0, 0.0, 0.0]]))
        counted.append(controller.plan_count(0))
    assert counted == [1, 1, plans]


def test_when_late_needs_to_know_how_long_the_data_takes():
    with pytest.raises(BadInput, match="replan_late needs the passage times"):
        SubgoalController(noise_planner(2, 1), PointPolicy(), PlanFollowing(replan_late=True), (0, 1))


@pytest.mark.parametrize("changes", [{"replan_every": -1}, {"lookahead": 0}, {"goal_tolerance": -1.0}])
def test_impossible_settings_are_named(changes):
    with pytest.raises(BadInput, match=next(iter(changes))):
        PlanFollowing(**changes)
