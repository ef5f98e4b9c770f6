"""What every agent keeps to, those that are registered and the examples of new ones."""

from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import torch
from members import Clone, Relay

from scots.agents import AGENTS
from scots.agents.base import Agent
from scots.core.errors import BadInput
from scots.datasets import toy
from scots.datasets.specs import spec_of
from scots.models.training import fit

MEMBERS: dict[str, type[Agent]] = {**AGENTS, Clone.name: Clone, Relay.name: Relay}
DATA = toy.make(episodes=20)
SPEC = spec_of(DATA)
STARTS, GOALS = DATA.observations[:50], DATA.observations[100:150]


def build(name: str) -> Any:
    torch.manual_seed(0)
    return MEMBERS[name].for_data(MEMBERS[name].configure(SPEC, "smoke"), DATA)


def act(model: Any, seed: int = 0, rows: slice = slice(None)) -> np.ndarray:
    return model.act(STARTS[rows], GOALS[rows], np.random.default_rng(seed))


@pytest.fixture(scope="module", params=MEMBERS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    """Name, model and folder of a short training."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, fit(build(request.param), DATA, seed=0, folder=folder), folder


def test_training_changes_what_it_does(trained: tuple[str, Any, Path]):
    name, model, _ = trained
    assert np.abs(act(model) - act(build(name))).max() > 1e-3


def test_a_folder_holds_the_whole_agent(trained: tuple[str, Any, Path]):
    name, model, folder = trained
    loaded = MEMBERS[name].load(folder)
    assert loaded.config == model.config
    assert np.array_equal(act(loaded), act(model))


def test_actions_are_within_bounds_wherever_it_stands(trained: tuple[str, Any, Path]):
    _, model, _ = trained
    far = np.random.default_rng(0).normal(scale=100, size=(200, 2))
    actions = model.act(far, -far, np.random.default_rng(0))
    assert actions.shape == (200, 2)
    assert actions.dtype == np.float32
    assert np.abs(actions).max() <= 1


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


@pytest.mark.parametrize("name", MEMBERS)
def test_batches_have_the_size_that_was_asked_for(name: str):
    batch = build(name).batch(DATA, 37, np.random.default_rng(0))
    assert {len(values) for values in batch.values()} == {37}


@pytest.mark.parametrize("name", MEMBERS)
def test_configs_survive_json_at_every_scale(name: str):
    for profile in ("smoke", "laptop", "paper"):
        config = MEMBERS[name].configure(SPEC, profile)
        assert type(config).from_json(config.to_json()) == config


@pytest.mark.parametrize("name", MEMBERS)
def test_no_actions_no_agent(name: str):
    with pytest.raises(BadInput, match="no actions"):
        MEMBERS[name].for_data(MEMBERS[name].configure(SPEC, "smoke"), replace(DATA, actions=None))


@pytest.mark.parametrize("name", MEMBERS)
def test_all_agents_read_in_the_same_order(name: str):
    """Batches, the losses with those of actors last, their sum, what the training loop asks for, then acting."""
    written = vars(MEMBERS[name]).items()
    methods = [key for key, value in written if isinstance(value, FunctionType | classmethod) and key[0] != "_"]
    losses = [key for key in methods if key.endswith("_loss")]
    order = ["for_data", "configure", "batch", *losses, "loss", "ema_copies", "parameter_groups", "act"]
    assert methods == [key for key in order if key in methods]
    assert {"batch", "loss"} <= set(methods)
    actors = [key.endswith("actor_loss") for key in losses]
    assert actors == sorted(actors)


@pytest.mark.parametrize("name", MEMBERS)
def test_an_agent_is_registered_under_its_own_name(name: str):
    assert MEMBERS[name].name == name
