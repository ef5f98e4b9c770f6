"""What planning costs is counted while episodes run, and only then."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from members import StraightPlanner

from scots.data.trajectories import Array
from scots.datasets import toy
from scots.evaluation.control import GoalController, PlanFollowing, PointPolicy, SubgoalController
from scots.evaluation.cost import metered
from scots.evaluation.results import EvalResult, Subject, evaluate
from scots.models.training import EMA
from scots.planners.base import Plan

DATA = toy.make(episodes=4)


class Sampling:
    """A planner that asks a sampling network three times for plans, and once to fill in."""

    def __init__(self) -> None:
        self.straight = StraightPlanner.for_data(StraightPlanner.configure(None, 12, "smoke"), DATA)
        self.net = EMA(torch.nn.Linear(2, 2), 0.9)

    def plan(self, start: Array, goal: Array | None, seeds: Sequence[int]) -> list[Plan]:
        for _ in range(3):
            self.net(torch.zeros(2 * len(start), 2))
        return self.straight.plan(start, goal, seeds)

    def fill_in(self, plans: Sequence[Plan], first: Sequence[int], last: Sequence[int]) -> None:
        self.net(torch.zeros(5, 2))


def controller(planner: Sampling) -> SubgoalController:
    return SubgoalController(planner, PointPolicy(), PlanFollowing(5, 2, 0.4), DATA.meta.position)


def test_calls_plans_and_network_calls_are_added_up():
    planner = Sampling()
    own, zeros = controller(planner), np.zeros((4, 2), np.float32)
    with metered(own) as cost:
        plans = own.planner.plan(zeros, zeros, range(4))
        own.planner.plan(zeros[:2], zeros[:2], range(2))
        own.planner.fill_in(plans, [0] * 4, [1] * 4)
    planner.plan(zeros, zeros, range(4))  # outside, not counted
    assert own.planner is planner
    assert cost.seconds > 0
    counted = {name: value for name, value in cost.to_dict().items() if name != "seconds"}
    assert counted == {"calls": 2, "plans": 6, "network_calls": 7, "sequences": 3 * 8 + 3 * 4 + 5}


def test_the_planner_is_put_back_after_an_error():
    planner = Sampling()
    own = controller(planner)
    with pytest.raises(RuntimeError, match="stop"), metered(own):
        raise RuntimeError("stop")
    assert own.planner is planner


def test_rows_say_what_planning_cost_where_there_is_a_planner():
    for own, plans in ((controller(Sampling()), True), (GoalController(PointPolicy()), False)):
        subject = Subject(own, DATA.meta, {"agent": "gciql"}, "smoke", training_seed=0, step_limits=(11,))
        rows = evaluate(subject, episodes=2, workers=1)
        assert len({json.dumps(row.planning) for row in rows}) == 1
        assert bool(rows[0].planning) == plans
        assert ("planning" in rows[0].to_dict()) == plans
        if plans:
            assert rows[0].planning["calls"] == 3  # at steps 0, 5 and 10
            assert rows[0].planning["plans"] <= 3 * 2 * 5
        assert [EvalResult.from_dict(row.to_dict()) for row in rows] == rows
