"""Actors that run, from random to medium, and the episodes that are collected with them: plain numpy and MuJoCo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Self

import numpy as np

from scots.core.config import Config, Seeds
from scots.core.errors import BadInput
from scots.core.files import atomic, sha256
from scots.data.trajectories import Array
from scots.datasets.sac import LOG_STD_RANGE
from scots.datasets.specs import RunnerCollection
from scots.envs.base import Task
from scots.envs.locomotion import RUNNERS, Locomotion

EPISODE_STEPS = 1000  # after which Gymnasium ends an episode
RUN = Task(1)  # the only task of a runner

MEDIUM: dict[str, tuple[float, int]] = {"hopper": (970.0, 300_000), "walker2d": (1378.0, 600_000)}
"""30 % of the return of D4RL's expert, and the steps after which training gives up on it."""

Layer = tuple[Array, Array]
"""Weights (in, out) and biases (out,)."""

_ASSETS = Path(str(files("scots.datasets") / "assets" / "runners"))


@dataclass(frozen=True, eq=False)
class RunnerActor:
    """A policy tanh(mean + deviation * noise) of three layers; the last one puts out mean and log deviation."""

    layers: Sequence[Layer]

    def __call__(self, observation: Array, rng: np.random.Generator) -> Array:
        """An action (A,) drawn for an observation (O,)."""
        hidden = observation
        for weight, bias in self.layers[:-1]:
            hidden = np.maximum(hidden @ weight + bias, 0)
        weight, bias = self.layers[-1]
        mean, log_std = np.split(hidden @ weight + bias, 2)
        noise = rng.standard_normal(mean.shape, np.float32)
        return np.tanh(mean + np.exp(np.clip(log_std, *LOG_STD_RANGE)) * noise)


@dataclass(frozen=True)
class Rung(Config):
    """What is known of one actor: when in training it was taken, and how its episodes went."""

    steps: int  # of training
    episodes: int  # that were measured, with actions drawn as in collection
    return_mean: float
    return_std: float
    length_mean: float  # steps


@dataclass(frozen=True, eq=False)
class Ladder:
    """The actors of a training run, at equal distances, up to the first that is good enough: the medium one."""

    rungs: tuple[Rung, ...]
    actors: tuple[RunnerActor, ...]
    fingerprint: str = ""  # of the file

    @classmethod
    def shipped(cls, body: str) -> Self:
        """The ladder of the package."""
        return cls.load(_ASSETS / f"{body}.safetensors")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as file:
                rungs = json.loads((file.metadata() or {})["rungs"])
                arrays = {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118
            layers = [(arrays[f"{n}.weight"], arrays[f"{n}.bias"]) for n in range(len(arrays) // 2)]
            actors = [RunnerActor([(w[rung], b[rung]) for w, b in layers]) for rung in range(len(rungs))]
            return cls(tuple(map(Rung.from_dict, rungs)), tuple(actors), sha256(path)[:16])
        except (OSError, KeyError, IndexError, ValueError, SafetensorError) as error:
            raise BadInput(f"{path}: not a valid ladder of actors ({error}); see `scots data expert`") from error

    def save(self, path: Path) -> None:
        """Write all actors to one file; half precision is enough for actions that are drawn at random."""
        from safetensors.numpy import save_file

        arrays = {}
        for number, layer in enumerate(zip(*(actor.layers for actor in self.actors), strict=True)):
            for name, values in zip(("weight", "bias"), zip(*layer, strict=True), strict=True):
                arrays[f"{number}.{name}"] = np.stack(values).astype(np.float16)
        with atomic(path) as temporary:
            save_file(arrays, temporary, {"rungs": json.dumps([rung.to_dict() for rung in self.rungs])})

    def up_to(self, return_mean: float) -> Self:
        """The same without the actors after the first that earns this much; all if none does."""
        good = [n for n, rung in enumerate(self.rungs) if rung.return_mean >= return_mean]
        count = good[0] + 1 if good else len(self.rungs)
        return type(self)(self.rungs[:count], self.actors[:count])

    def used_for(self, kind: str) -> Self:
        """The actors that collect medium data, which is the last one, or medium-replay data, which are all of them."""
        first = len(self.rungs) - 1 if kind == "medium" else 0
        return type(self)(self.rungs[first:], self.actors[first:], self.fingerprint)

    def shares(self) -> Array:
        """Shares of episodes by actor (R,) with which all of them make equally many steps."""
        inverse = 1 / np.array([rung.length_mean for rung in self.rungs])
        return inverse / inverse.sum()

    def episode_steps(self) -> float:
        """Expected steps of an episode, by an actor drawn with these shares."""
        return float(self.shares() @ [rung.length_mean for rung in self.rungs])


def finished_ladder(spec: RunnerCollection) -> Ladder:
    """The actors that collect a dataset; refused where the best that ship are not medium yet."""
    path, (enough, _) = _ASSETS / f"{spec.body}.safetensors", MEDIUM[spec.body]
    ladder = Ladder.load(path) if path.exists() else None
    if ladder is None or ladder.rungs[-1].return_mean < enough:
        best = (
            f"the best actor that ships earns {ladder.rungs[-1].return_mean:,.0f}" if ladder else "no actors ship yet"
        )
        train = f"`scots data expert {spec.body} --out FOLDER` trains on"
        raise BadInput(
            f"{spec.id}: {best}, a medium one {enough:,.0f}; {train}, then copy FOLDER/ladder.safetensors to {path}"
        )
    return ladder.used_for(spec.kind)


def run_episode(environment: Locomotion, actor: RunnerActor, steps: int, rng: np.random.Generator) -> dict[str, Array]:
    """One episode of at most so many steps, as arrays of a data file; every draw comes from `rng`.

    The state after the last step is a row of its own. No action follows it, so its action and reward are 0.
    """
    observation, _ = environment.reset(RUN, rng)
    observations, physics, done = [observation], [environment.physics()], False
    actions: list[Array] = []
    rewards: list[float] = []
    while len(actions) < steps and not done:
        actions.append(actor(observation, rng))
        observation, reward, _, done = environment.step(actions[-1])
        observations.append(observation)
        rewards.append(reward)
        physics.append(environment.physics())
    qpos, qvel = (np.stack(values).astype(np.float32) for values in zip(*physics, strict=True))
    return {
        "observations": np.stack(observations),
        "actions": np.stack([*actions, np.zeros_like(actions[0])]),
        "terminals": np.arange(len(observations)) == len(actions),
        "rewards": np.array([*rewards, 0], np.float32),
        "qpos": qpos,
        "qvel": qvel,
        "terminated": np.array([done]),
    }


class RunnerEpisodes:
    """Collects the episodes of a locomotion dataset, each by an actor that is drawn for it."""

    def __init__(self, spec: RunnerCollection, ladder: Ladder | None = None) -> None:
        ladder = (ladder or Ladder.shipped(spec.body)).used_for(spec.kind)
        self._actors, self._shares = ladder.actors, ladder.shares()
        self._environment, self._steps = Locomotion(RUNNERS[spec.body]), spec.states - 1

    def episode(self, rng: np.random.Generator) -> dict[str, Array]:
        """Collect one episode."""
        actor = self._actors[rng.choice(len(self._actors), p=self._shares)]
        return run_episode(self._environment, actor, self._steps, rng)


def measure_actor(body: str, actor: RunnerActor, episodes: int, seed: int) -> dict[str, float]:
    """Return and length of episodes in which actions are drawn as collection draws them."""
    environment, seeds = Locomotion(RUNNERS[body]), Seeds(seed)
    rewards = [
        run_episode(environment, actor, EPISODE_STEPS, seeds.stream("measure", number))["rewards"]
        for number in range(episodes)
    ]
    returns = [own.sum() for own in rewards]
    return {
        "episodes": episodes,
        "return_mean": float(np.mean(returns)),
        "return_std": float(np.std(returns)),
        "length_mean": float(np.mean([len(own) - 1 for own in rewards])),
    }
