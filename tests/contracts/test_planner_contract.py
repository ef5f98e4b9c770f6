"""What every planner keeps to, those that are registered and the example of a new one."""

from pathlib import Path

import numpy as np
import pytest
import torch
from members import StraightPlanner

from scots.augmenters.embedding import RawState
from scots.data.trajectories import Array
from scots.datasets import toy
from scots.datasets.specs import spec_of
from scots.models.cache import train
from scots.planners import PLANNERS
from scots.planners.base import PlannerModel
from scots.planners.hd import HierarchicalDiffuser

MEMBERS: dict[str, type[PlannerModel]] = {**PLANNERS, StraightPlanner.name: StraightPlanner}
DATA = toy.make(episodes=20)
SPEC = spec_of(DATA)
STARTS, GOALS = DATA.positions[:6].copy(), DATA.positions[100:106].copy()


def configure(name: str, profile="smoke"):
    return MEMBERS[name].configure(SPEC, SPEC.episode_states, profile)


@pytest.fixture(scope="module", params=MEMBERS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[PlannerModel, Path]:
    """A planner after a short training, and its folder."""
    folder, config = tmp_path_factory.mktemp(request.param), configure(request.param)
    planner = train(MEMBERS[request.param], config, DATA, 0, folder, request.param)
    if planner.needs_distances(config):
        planner.encoder = RawState(DATA)
    return planner, folder


def plans(planner: PlannerModel, rows: slice = slice(None), seed: int = 0) -> list[Array]:
    """Plans from some of the starts, filled in."""
    seeds = [seed + n for n in range(len(STARTS))[rows]]
    drawn = planner.plan(STARTS[rows], GOALS[rows], seeds)
    planner.fill_in(drawn, [0] * len(drawn), [len(plan.positions) for plan in drawn])
    return [plan.positions for plan in drawn]


def test_plans_lead_from_start_to_goal(trained: tuple[PlannerModel, Path]):
    for positions, start, goal in zip(plans(trained[0]), STARTS, GOALS, strict=True):
        assert positions.dtype == np.float32
        assert positions.shape[1] == len(trained[0].columns)
        assert np.isfinite(positions).all()
        assert np.array_equal(positions[0], start)
        assert np.array_equal(positions[-1], goal)


def test_a_seed_decides_a_plan(trained: tuple[PlannerModel, Path]):
    """Whatever was drawn before; another seed gives another plan only where something is drawn."""
    planner, _ = trained
    first, other = plans(planner), plans(planner, seed=100)
    assert all(np.array_equal(a, b) for a, b in zip(plans(planner), first, strict=True))
    if isinstance(planner, HierarchicalDiffuser):
        assert not any(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_a_plan_does_not_depend_on_its_companions(trained: tuple[PlannerModel, Path]):
    together = plans(trained[0])
    for n in range(len(STARTS)):
        (alone,) = plans(trained[0], slice(n, n + 1))
        np.testing.assert_allclose(alone, together[n], rtol=1e-4, atol=1e-4)


def test_filling_in_again_changes_nothing(trained: tuple[PlannerModel, Path]):
    planner, _ = trained
    drawn = planner.plan(STARTS, GOALS, range(len(STARTS)))
    last = [len(plan.positions) for plan in drawn]
    planner.fill_in(drawn, [0] * len(drawn), last)
    before = [plan.positions.copy() for plan in drawn]
    planner.fill_in(drawn, [0] * len(drawn), last)
    assert all(np.array_equal(plan.positions, kept) for plan, kept in zip(drawn, before, strict=True))


def test_planning_leaves_its_inputs_and_weights_alone(trained: tuple[PlannerModel, Path]):
    planner, _ = trained
    before = {name: value.clone() for name, value in planner.state_dict().items()}
    starts, goals = STARTS.copy(), GOALS.copy()
    plans(planner)
    assert np.array_equal(starts, STARTS)
    assert np.array_equal(goals, GOALS)
    assert all(torch.equal(value, before[name]) for name, value in planner.state_dict().items())


def test_a_folder_holds_the_whole_planner(trained: tuple[PlannerModel, Path]):
    planner, folder = trained
    loaded = type(planner).load(folder)
    loaded.encoder = planner.encoder  # what goes with a planner is saved beside it
    assert (loaded.config, loaded.meta) == (planner.config, DATA.meta)
    assert all(np.array_equal(a, b) for a, b in zip(plans(loaded), plans(planner), strict=True))


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_configs_survive_json_at_every_scale(name: str, profile):
    config = configure(name, profile)
    assert type(config).from_json(config.to_json()) == config


@pytest.mark.parametrize("name", MEMBERS)
def test_a_planner_is_registered_under_its_own_name(name: str):
    assert MEMBERS[name].name == name
