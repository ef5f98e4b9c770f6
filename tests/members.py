"""New members, as small as they can be: the contract tests run over them beside those that are registered."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from scots.agents.base import Agent, gather, sample_rows
from scots.augmenters.base import Augmenter
from scots.core.config import Config, Seeds
from scots.data.trajectories import GoalMix, Meta, Normalizer, Trajectories, concat, offsets_from_lengths
from scots.datasets.specs import DatasetSpec, spec_of
from scots.envs.base import Environment, Step, Task
from scots.models.nets import GaussianActor, Scale, mlp
from scots.models.training import TrainingConfig
from scots.planners.base import Plan, PlannerModel

SHORT = TrainingConfig(steps=200, batch_size=64, learning_rate=1e-2)
DATASET = "line-walk-v0"
LINE = DatasetSpec(
    DATASET, columns=2, episode_states=20, environment="line-v0", lookahead=2, reference_limit=40,
    reference_returns=(-100.0, 0.0), controller="clone",
)  # fmt: skip


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
        return gather(data, sample_rows(self.config, data, size, rng))

    def loss(self, batch, generator):
        mean = self.actor(self.scale(batch["actor_state"]), self.scale(batch["actor_goal"]))
        return nn.functional.mse_loss(mean, batch["actor_action"]), {}


@dataclass(frozen=True)
class RelayConfig(CloneConfig):
    subgoal_steps: int = 5


class Relay(Agent):
    """Two actors: one imitates where the data went a few steps later, the other how it got there."""

    name = "relay"
    config_class = RelayConfig
    short_run: ClassVar[dict[str, Any]] = Clone.short_run

    def __init__(self, config: RelayConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.high = mlp((2 * sizes["observation"], *config.hidden, sizes["observation"]))
        self.low = mlp((2 * sizes["observation"], *config.hidden, sizes["action"]))

    def batch(self, data, size, rng):
        rows = sample_rows(self.config, data, size, rng)
        later = rows["actor_state"] + self.config.subgoal_steps
        return gather(data, rows | {"subgoal": np.minimum(later, data.last_row_of(rows["actor_state"]))})

    def high_actor_loss(self, batch):
        subgoal = self.high(torch.cat([batch["actor_state"], batch["actor_goal"]], dim=-1))
        return nn.functional.mse_loss(subgoal, batch["subgoal"])

    def low_actor_loss(self, batch):
        action = self.low(torch.cat([batch["actor_state"], batch["subgoal"]], dim=-1))
        return nn.functional.mse_loss(action, batch["actor_action"])

    def loss(self, batch, generator):
        batch = self.scaled(batch)
        return self.high_actor_loss(batch) + self.low_actor_loss(batch), {}

    @torch.inference_mode()
    def act(self, observations, goals, rng):
        state, goal = (self.scale(torch.tensor(values, dtype=torch.float32)) for values in (observations, goals))
        subgoal = self.high(torch.cat([state, goal], dim=-1))
        return self.low(torch.cat([state, subgoal], dim=-1)).clamp(-1, 1).numpy()


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
        return [Plan(((1 - share) * a + share * b).astype(np.float32), seed) for a, b, seed in pairs]

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

    def configure(self, spec, profile, *, for_planner=False):
        return CopiesConfig()

    def episode_states(self, config, spec):
        return spec.episode_states

    def augment(self, data, config, *, seed, out=None, profile="laptop", workers=None):
        default, source = self.configure(spec_of(data), profile), data.fingerprint()
        step = self.provenance(config, default, profile=profile, seed=seed, source=source, packages=())
        meta = replace(data.meta, provenance=(*data.meta.provenance, step))
        few = data[: max(1, len(data) // 10)]
        return self.read_or_make(out, meta, lambda: (concat([data] * config.copies), few))
