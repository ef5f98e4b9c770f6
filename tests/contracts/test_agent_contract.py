"""What every registered agent keeps to, only because it is registered."""

from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch

from scots.agents import AGENTS, configure_agent
from scots.core.errors import BadInput
from scots.envs import toy
from scots.models.training import fit

DATA = toy.make(episodes=20)
STARTS, GOALS = DATA.observations[:50], DATA.observations[100:150]


def build(name: str) -> Any:
    torch.manual_seed(0)
    return AGENTS[name].for_data(configure_agent(name, DATA, "smoke"), DATA)


def act(model: Any, seed: int = 0, rows: slice = slice(None)) -> np.ndarray:
    return model.act(STARTS[rows], GOALS[rows], np.random.default_rng(seed))


@pytest.fixture(scope="module", params=AGENTS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    """Name, model and folder of a short training."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, fit(build(request.param), DATA, seed=0, folder=folder), folder


def test_training_changes_what_it_does(trained: tuple[str, Any, Path]):
    name, model, _ = trained
    assert np.abs(act(model) - act(build(name))).max() > 1e-3


def test_a_folder_holds_the_whole_agent(trained: tuple[str, Any, Path]):
    name, model, folder = trained
    loaded = AGENTS[name].load(folder)
    assert loaded.config == model.config
    assert np.array_equal(act(loaded), act(model))
    asked = np.concatenate([DATA.positions, DATA.positions + 100])
    assert np.array_equal(loaded.support.covers(asked), model.support.covers(asked))


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_knows_where_its_data_has_been(name: str):
    known = build(name).support.covers(DATA.positions)
    assert known.mean() > 0.99
    assert not build(name).support.covers(DATA.positions + 100).any()
    placeless = replace(DATA, meta=replace(DATA.meta, position=()))
    assert AGENTS[name].for_data(configure_agent(name, DATA, "smoke"), placeless).sizes["boxes"] == 0


def test_actions_are_within_bounds_wherever_it_stands(trained: tuple[str, Any, Path]):
    _, model, _ = trained
    far = np.random.default_rng(0).normal(scale=100, size=(200, 2))
    actions = model.act(far, -far, np.random.default_rng(0))
    assert actions.shape == (200, 2)
    assert actions.dtype == np.float32
    assert np.abs(actions).max() == 1


def test_together_equals_one_by_one(trained: tuple[str, Any, Path]):
    _, model, _ = trained
    single = np.concatenate([act(model, rows=slice(n, n + 1)) for n in range(len(STARTS))])
    np.testing.assert_allclose(act(model), single, rtol=1e-4, atol=1e-6)


def test_acting_is_deterministic_and_changes_nothing(trained: tuple[str, Any, Path]):
    _, model, _ = trained
    before = STARTS.copy(), GOALS.copy(), {name: value.clone() for name, value in model.state_dict().items()}
    assert np.array_equal(act(model, seed=0), act(model, seed=1))
    assert np.array_equal(STARTS, before[0])
    assert np.array_equal(GOALS, before[1])
    assert all(torch.equal(value, before[2][name]) for name, value in model.state_dict().items())


def test_the_goal_matters(trained: tuple[str, Any, Path]):
    _, model, _ = trained
    other = model.act(STARTS, GOALS[::-1].copy(), np.random.default_rng(0))
    assert np.abs(act(model) - other).max() > 1e-3


@pytest.mark.parametrize("name", AGENTS)
def test_batches_have_the_size_that_was_asked_for(name: str):
    batch = build(name).batch(DATA, 37, np.random.default_rng(0))
    assert {len(values) for values in batch.values()} == {37}


@pytest.mark.parametrize("name", AGENTS)
def test_configs_survive_json_at_every_scale(name: str):
    for profile in ("smoke", "laptop", "paper"):
        config = configure_agent(name, DATA, profile)
        assert type(config).from_json(config.to_json()) == config


@pytest.mark.parametrize("name", AGENTS)
def test_no_actions_no_agent(name: str):
    with pytest.raises(BadInput, match="no actions"):
        AGENTS[name].for_data(configure_agent(name, DATA, "smoke"), replace(DATA, actions=None))


@pytest.mark.parametrize("name", AGENTS)
def test_all_agents_read_in_the_same_order(name: str):
    """Batches, the losses with the actor's last, their sum."""
    written = vars(AGENTS[name]).items()
    methods = [key for key, value in written if isinstance(value, FunctionType | classmethod) and key != "__init__"]
    losses = [key for key in methods if key.endswith("_loss")]
    extra = ["slow_copies"] if "slow_copies" in methods else []
    assert methods == ["batch", *losses, "loss", *extra]
    assert losses[-1] == "actor_loss"
