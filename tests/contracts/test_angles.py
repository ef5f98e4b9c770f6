"""What every member keeps to where a column is an angle: north is one direction, whether it is called 0 or 360."""

from pathlib import Path

import numpy as np
import pytest
import torch
from members import Clone, Copies, Relay, StraightPlanner
from strategies import drives

from scots.agents import AGENTS
from scots.agents.gcbc import GCBC
from scots.augmenters import AUGMENTERS
from scots.augmenters.embedding import ENCODERS, RawState
from scots.augmenters.settings import ScotsConfig
from scots.core.errors import BadInput
from scots.datasets.specs import spec_of
from scots.models.training import Model, fit
from scots.planners import PLANNERS

DATA = drives()
SPEC = spec_of(DATA)
AUGMENTED = {**AUGMENTERS, Copies.name: Copies()}
ACTING = {**AGENTS, Clone.name: Clone, Relay.name: Relay}
PLANNING = {**PLANNERS, StraightPlanner.name: StraightPlanner}
EAST_OF_NORTH, WEST_OF_NORTH, SOUTH = (
    np.array([[0.5, 0.4, heading, 6]] * 4, dtype=np.float32) for heading in (0.01, 359.99, 180)
)


@pytest.fixture(autouse=True, scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(tmp_path_factory.mktemp("home")))
        yield


def trained(kind: type[Model], config, data=DATA, folder: Path | None = None) -> Model:
    torch.manual_seed(0)
    return fit(kind.for_data(config, data), data, seed=0, folder=folder).eval()


def assert_only_south_differs(north: np.ndarray, also_north: np.ndarray, south: np.ndarray) -> None:
    np.testing.assert_allclose(north, also_north, atol=0.01 * np.abs(north - south).max())
    assert np.abs(north - south).max() > 1e-3


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", ENCODERS)
def test_encoders(name: str, normalize: bool):
    config = AUGMENTERS["scots"].configure(SPEC, "smoke").embedding.replace_at("normalize", normalize)
    encoder = ENCODERS[name](config.replace_at("training.steps", 20), DATA, 0)
    assert_only_south_differs(*map(encoder.encode, (EAST_OF_NORTH, WEST_OF_NORTH, SOUTH)))


def test_positions_are_encoded_in_the_raw_columns():
    config = AUGMENTERS["scots"].configure(SPEC, "smoke").embedding.replace_at("training.steps", 20)
    encoder = ENCODERS["temporal"](config, DATA, 0)
    assert (DATA.observations == encoder.reference.numpy()).all(axis=1).any()
    assert np.isfinite(encoder.encode_positions((0, 1), DATA.positions[:5])).all()


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("name", ACTING)
def test_agents(name: str, normalize: bool, tmp_path: Path):
    config = ACTING[name].configure(SPEC, "smoke").replace_all({"normalize": normalize, "training.steps": 20})
    agent, rng = trained(ACTING[name], config, folder=tmp_path), np.random.default_rng(0)
    goals = DATA.observations[:4]
    states = EAST_OF_NORTH, WEST_OF_NORTH, SOUTH
    assert_only_south_differs(*(agent.act(state, goals, rng) for state in states))
    towards = [agent.act(goals, state, rng) for state in states]
    if ACTING[name] is GCBC:  # of a goal it sees the position only
        assert np.array_equal(towards[0], towards[2])
    else:
        assert_only_south_differs(*towards)
    loaded = ACTING[name].load(tmp_path)
    assert np.array_equal(loaded.act(SOUTH, goals, rng), agent.act(SOUTH, goals, rng))


MAPLESS = [name for name, planner in PLANNING.items() if not planner.plans_actions and name != "oracle"]
"""Planners of positions that need no map."""


@pytest.mark.parametrize("name", MAPLESS)
def test_planners_of_positions_do_not_see_the_heading(name: str):
    planner = PLANNING[name].for_data(PLANNING[name].configure(SPEC, 30, "smoke"), DATA)
    planner.encoder = RawState(DATA.only_positions())
    (plan,) = planner.plan(DATA.positions[:1], DATA.positions[100:101], [0])
    assert plan.positions.shape[1] == 2


def test_a_grid_over_an_angle_is_refused():
    data = DATA.with_meta(position=(2, 3))
    with pytest.raises(BadInput, match="a grid does not close around an angle"):
        PLANNERS["support"].for_data(PLANNERS["support"].configure(SPEC, 30, "smoke"), data)


@pytest.mark.parametrize("name", [name for name, planner in PLANNERS.items() if planner.learns])
def test_planners_of_an_angle_plan_in_its_range(name: str, tmp_path: Path):
    data = DATA.with_meta(position=(2, 3))
    config = PLANNERS[name].configure(SPEC, 30, "smoke").replace_at("training.steps", 20)
    planner = trained(PLANNERS[name], config, data, tmp_path)
    whole, columns = np.array([[0.5, 0.4, 350, 5], [0.6, 0.4, 10, 6]], np.float32), list(planner.columns)
    start, goal, heading = whole[:1, columns], whole[1:, columns], columns.index(2)
    for model in (planner, PLANNERS[name].load(tmp_path)):
        (plan,) = model.plan(start, goal, [0])
        model.fill_in([plan], [0], [len(plan.positions)])
        assert np.array_equal(plan.positions[[0, -1]], np.concatenate([start, goal]))
        assert plan.positions[:, heading].min() >= 0
        assert plan.positions[:, heading].max() < 360


@pytest.mark.slow
@pytest.mark.parametrize("name", AUGMENTED)
def test_augmenters_give_back_angles_in_the_range_of_the_data(name: str, tmp_path: Path):
    config = AUGMENTED[name].configure(SPEC, "smoke")
    if isinstance(config, ScotsConfig):
        config = config.replace_all({"trajectories": 4, "stitching.stitches": 3})
    aug = AUGMENTED[name].augment(DATA, config, seed=0, out=tmp_path / "aug.npz", profile="smoke", workers=1)
    assert aug.meta.angles == DATA.meta.angles
    assert aug.observations.shape[1] == DATA.observations.shape[1]
    assert np.isfinite(aug.observations).all()
    assert aug.observations[:, 2].min() >= 0
    assert aug.observations[:, 2].max() < 360
