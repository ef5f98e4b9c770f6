"""Adding a member of each kind takes its own class, a registry line and a row of settings: done here, end to end.

A walker on a line, an agent, a planner and an augmenter for it are registered in this test alone, then trained,
evaluated and put into a table through the command line.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from scots.agents import AGENTS
from scots.agents.base import Agent, sample_transitions
from scots.augmenters import AUGMENTERS
from scots.augmenters.base import Augmenter
from scots.cli import main
from scots.core.config import Config, Seeds
from scots.data import formats
from scots.data.shards import validation_path
from scots.data.trajectories import GoalMix, Meta, Normalizer, Trajectories, concat, offsets_from_lengths
from scots.datasets.loading import data_path
from scots.datasets.specs import SPECS, DatasetSpec
from scots.envs import ENVIRONMENTS
from scots.envs.base import Environment, Step, Task
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES, ResultTable
from scots.models.nets import GaussianActor, Scale
from scots.models.training import TrainingConfig
from scots.planners import PLANNERS
from scots.planners.base import Plan, PlannerModel

SHORT = TrainingConfig(steps=200, batch_size=64, learning_rate=1e-2)
DATASET = "line-walk-v0"


# -------------------------------------------------------------------------------------------------------- environment


class LineEnvironment(Environment):
    """A point on a line that an action moves by at most one; a goal is reached within half a step."""

    @classmethod
    def tasks(cls, meta: Meta) -> tuple[Task, ...]:
        return Task(1, (0.0,), (8.0,)), Task(2, (8.0,), (1.0,))

    @classmethod
    def make(cls, meta: Meta, count: int) -> list["LineEnvironment"]:
        return [cls() for _ in range(count)]

    def reset(self, task: Task, rng: np.random.Generator):
        self._x, self._goal = (np.float32(place[0] + rng.uniform(-0.1, 0.1)) for place in (task.start, task.goal))
        return self._observation(self._x), self._observation(self._goal)

    def step(self, action) -> Step:
        self._x += np.float32(np.clip(action[0], -1, 1))
        success = bool(abs(self._x - self._goal) <= 0.5)
        return Step(self._observation(self._x), -float(abs(self._x - self._goal)), success, success)

    @staticmethod
    def _observation(x) -> np.ndarray:
        return np.array([x, x**2 / 10], dtype=np.float32)


def line_data() -> Trajectories:
    """Walks back and forth between random points."""
    walks, moves = [], []
    for number in range(40):
        rng = Seeds(0).stream("line", number)
        x, target = rng.uniform(0, 9, size=2)
        for _ in range(20):
            move = np.clip(target - x + rng.normal(0, 0.1), -1, 1)
            walks.append([x, x**2 / 10])
            moves.append([move])
            x += move
    offsets, meta = offsets_from_lengths([20] * 40), Meta(DATASET, "line-v0", ("x", "height"), position=(0,))
    return Trajectories(np.array(walks), offsets, np.array(moves), meta=meta)


# -------------------------------------------------------------------------------------------------------------- agent


@dataclass(frozen=True)
class CloneConfig(Config):
    hidden: tuple[int, ...] = (32,)
    normalize: bool = True
    discount: float = 0.8
    value_goals: GoalMix = GoalMix(current=0.0, trajectory=1.0, random=0.0)
    actor_goals: GoalMix = GoalMix(current=0.0, trajectory=1.0, random=0.0)
    training: TrainingConfig = SHORT


class Clone(Agent):
    """Imitates the action that led towards a later state."""

    name = "clone"
    config_class = CloneConfig
    short_run: ClassVar[dict[str, Any]] = {"training": SHORT, "hidden": (32,), "discount": 0.8}

    def __init__(self, config: CloneConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.actor = GaussianActor(2 * sizes["observation"], config.hidden, sizes["action"])

    def batch(self, data, size, rng):
        arrays = sample_transitions(self.config, data, size, rng)[2]
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def loss(self, batch, generator):
        mean = self.actor(self.scale(batch["state"]), self.scale(batch["actor_goal"]))
        return nn.functional.mse_loss(mean, batch["action"]), {}


# ------------------------------------------------------------------------------------------------------------ planner


@dataclass(frozen=True)
class StraightConfig(Config):
    states: int = 12
    training: TrainingConfig = replace(SHORT, steps=20)


class StraightPlanner(PlannerModel):
    """Plans a straight line; the only thing it learns is the mean of the positions, which it does not need."""

    name = "straight"
    config_class = StraightConfig

    def __init__(self, config: StraightConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.scale = Scale(sizes["position"])
        self.mean = nn.Parameter(torch.zeros(sizes["position"]))

    @classmethod
    def for_data(cls, config, data, **sizes):
        model = cls(config, {"position": len(data.meta.position)})
        model.scale.fit(Normalizer.fit(data.positions))
        return model

    @classmethod
    def configure(cls, spec, states, profile):
        return StraightConfig(states=min(states, 12))

    def batch(self, data, size, rng):
        return {"position": torch.from_numpy(data.positions[rng.integers(data.rows, size=size)])}

    def loss(self, batch, generator):
        return (self.scale(batch["position"]) - self.mean).square().mean(), {}

    def plan(self, start, goal, seeds):
        share = np.linspace(0, 1, self.config.states, dtype=np.float32)[:, None]
        pairs = zip(start, goal, seeds, strict=True)
        return [Plan((a + share * (b - a)).astype(np.float32), seed) for a, b, seed in pairs]

    def fill_in(self, plans, first, last):
        assert all(np.isfinite(plan.positions).all() for plan in plans)


# ---------------------------------------------------------------------------------------------------------- augmenter


@dataclass(frozen=True)
class CopiesConfig(Config):
    copies: int = 2


class Copies(Augmenter):
    """The data several times over."""

    name = "copies"
    config_class = CopiesConfig

    def configure(self, spec, profile):
        return CopiesConfig()

    def episode_states(self, config, spec):
        return spec.episode_states

    def augment(self, data, config, *, seed, out=None, profile="laptop", workers=None):
        step = self.provenance(
            config, CopiesConfig(), profile=profile, seed=seed, source=data.fingerprint(), packages=()
        )
        copied = concat([data] * config.copies).with_meta(provenance=(*data.meta.provenance, step))
        if out:
            formats.write(copied, out)
            formats.write(copied[:2], validation_path(out))
        return copied


# ---------------------------------------------------------------------------------------------------------------- use


@pytest.fixture(autouse=True)
def _members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind takes one line, and the dataset one row of settings."""
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(ENVIRONMENTS, "line", LineEnvironment)
    monkeypatch.setitem(AGENTS, Clone.name, Clone)
    monkeypatch.setitem(PLANNERS, StraightPlanner.name, StraightPlanner)
    monkeypatch.setitem(AUGMENTERS, Copies.name, Copies())
    spec = DatasetSpec(
        DATASET, columns=2, episode_states=20, environment="line-v0", lookahead=2, reference_limit=40,
        reference_returns=(-100.0, 0.0), controller="clone",
    )  # fmt: skip
    monkeypatch.setitem(SPECS, DATASET, spec)
    columns = {
        "clone": lambda spec: Recipe(None, None, "clone"),
        "straight": lambda spec: Recipe("copies", "straight", spec.controller, {"search.candidates": 1} | NO_SEARCH),
    }
    monkeypatch.setitem(TABLES, "line", ResultTable("A line", columns, {DATASET: {"clone": "50±1"}}))
    formats.write(line_data(), data_path(DATASET))


NO_SEARCH = {"search.mend": False, "search.bisect": False}


@pytest.mark.slow
def test_new_members_go_through_augment_train_evaluate_and_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def run(*words: object) -> str:
        assert main(list(map(str, words))) == 0
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    run("augment", DATASET, "--out", "aug.npz", "--augmenter", "copies", "--set", "copies=3")
    assert len(formats.read(tmp_path / "aug.npz")) == 120
    run("train", "straight", "--data", "aug.npz", "--out", "planner")
    run("train", "clone", "--data", DATASET, "--out", "agent")
    shown = run("evaluate", "planner", "--controller", "agent", "--candidates", 1, "--episodes", 3, "--workers", 1,
                "--keep", "rows.jsonl")  # fmt: skip
    assert "3 of 3" in shown
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert {row["recipe"]["augmenter"] for row in rows} == {"copies"}
    assert rows[0]["recipe"]["overrides"]["augmenter.copies"] == 3
    assert all(row["normalized_return"] == row["mean_return"] + 100 for row in rows)
    assert "straight + clone" in run("table", "line", "--dry-run", "--profile", "smoke")
    table = run("table", "line", "--profile", "smoke")
    assert "100.0" in table
    assert "(50±1)" in table
    assert "nothing is left to do" in run("table", "line", "--dry-run", "--profile", "smoke")


def test_unknown_members_are_named_with_those_that_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["train", "sarsa", "--data", DATASET, "--out", str(tmp_path / "x")]) == 2
    message = capsys.readouterr().err
    assert "'sarsa' is neither a planner (hd, straight) nor an agent (gciql, crl, clone)" in message
    assert main(["augment", DATASET, "--out", str(tmp_path / "a.npz"), "--augmenter", "mixup"]) == 2
    assert "'mixup' is not one of scots, scots-paper, copies" in capsys.readouterr().err
