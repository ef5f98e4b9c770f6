"""The policies that collect data: the ant that follows a commanded direction, and the registry of all of them.

The ant's shipped actor is plain numpy; this is also where it is trained and measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from scots.core.console import console, progress
from scots.core.errors import BadInput, require
from scots.core.files import atomic
from scots.data.trajectories import Array
from scots.datasets import runner_training, runners
from scots.envs.locomotion import RUNNERS
from scots.envs.ogbench import unit_vector

Actor = Callable[[Array, Array], Array]
"""(observation, unit direction) -> action."""

_MEAN_SCALE = 0.7
"""Factor on the trained mean before the tanh. It makes actions smaller and costs 3 % of the ant's speed; whether the
ant falls less often is not clear. The README beside the shipped actor has the numbers."""

_ANT_STEPS = 400_000
SHIPPED = Path(str(files("scots.datasets") / "assets" / "ant-expert"))


def follow_command(observation: Array, direction: Array) -> Array:
    """The point mass expert: its action is the direction."""
    return direction


class AntActor:
    """A tanh policy 29 -> 256 -> 256 -> 8. Its input is the ant's observation without x and y, and the direction."""

    def __init__(self, folder: Path = SHIPPED) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = folder / "actor.safetensors"
        try:
            weights = load_file(path)
            self._layers = [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in ("layers.0", "layers.1")]
            self._mean = (weights["mean.weight"], weights["mean.bias"])
        except (OSError, KeyError, SafetensorError) as error:
            raise BadInput(f"{path}: not a valid ant actor ({error}); train it again: scots data expert ant") from error

    def __call__(self, observation: Array, direction: Array) -> Array:
        """Deterministic action for one observation and direction."""
        hidden = np.concatenate([observation[2:], direction]).astype(np.float32)
        for weight, bias in self._layers:
            hidden = np.maximum(weight @ hidden + bias, 0)
        weight, bias = self._mean
        return np.tanh(weight @ hidden + bias)


def is_on_back(observations: Array) -> Array:
    """Whether the ant's up axis points below the horizon, from the quaternion in columns 3 to 6 (..., O)."""
    x, y = observations[..., 4], observations[..., 5]
    return 1 - 2 * (x * x + y * y) < 0


def measure_ant(folder: Path = SHIPPED, episodes: int = 200, seed: int = 0) -> dict[str, float]:
    """Run stitch episodes in the giant maze as collection does, and report how well the ant follows its command.

    A fall is a step on which the torso turns from upright to on its back.
    """
    from scots.core.config import Seeds
    from scots.datasets.collect import MazeWalker
    from scots.datasets.specs import maze_collection

    spec = maze_collection("ant", "giant", "stitch")
    walker = MazeWalker(spec, spec.meta(), AntActor(folder))
    reached, steps_to_reach, speeds, falls, on_back = [], [], [], 0, 0
    with progress("measuring the ant", episodes, "episodes") as bar:
        for index in range(episodes):
            episode = walker.episode(Seeds(seed).stream("measure", index))
            xy = episode.arrays["observations"][:, :2]
            close = np.flatnonzero(np.linalg.norm(xy - episode.goal, axis=1) <= 1.0)
            reached.append(close.size > 0)
            steps = close[0] if close.size else len(xy) - 1
            steps_to_reach.append(steps)
            along = (np.diff(xy, axis=0) * episode.directions[:-1]).sum(axis=1)
            speeds.append(along[: max(steps, 1)].mean())
            down = is_on_back(episode.arrays["observations"])
            falls += int((down[1:] & ~down[:-1]).sum())
            on_back += int(down[-1])
            bar.advance(1)
    return {
        "episodes": episodes,
        "reached_within_1m": float(np.mean(reached)),
        "median_steps_to_reach": float(np.median(steps_to_reach)),
        "metres_per_step_along_command": float(np.mean(speeds)),
        "falls_per_1000_steps": 1000 * falls / (episodes * (spec.states - 1)),
        "ended_on_back": on_back / episodes,
    }


def train_ant(out: Path, steps: int | None, seed: int = 0) -> None:
    """Train the directional ant with SAC on OGBench's flat-ground ant and write the actor to `actor.safetensors`.

    The reward is the displacement of a step along the commanded direction, redrawn at reset and every 100 steps.
    """
    baselines, steps = require("stable_baselines3", "experts"), _ANT_STEPS if steps is None else steps
    console.print(f"training the ant for {steps:,} steps with SAC (400,000 steps take about two hours on one core)")
    model = baselines.SAC(
        "MlpPolicy",
        _direction_environment(seed),
        learning_rate=3e-4,
        batch_size=256,
        learning_starts=min(10_000, steps // 2),
        target_entropy=-4.0,
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )
    with progress("training the ant", steps, "steps") as bar:
        while model.num_timesteps < steps:
            before = model.num_timesteps
            model.learn(min(5_000, steps - before), reset_num_timesteps=False)
            bar.advance(model.num_timesteps - before)
            _save_actor(model.policy.actor, out / "actor.safetensors")


def _save_actor(actor: Any, path: Path) -> None:
    from safetensors.numpy import save_file

    layers = {"layers.0": actor.latent_pi[0], "layers.1": actor.latent_pi[2], "mean": actor.mu}
    tensors = {
        f"{name}.{part}": getattr(layer, part).detach().numpy() * (_MEAN_SCALE if name == "mean" else 1)
        for name, layer in layers.items()
        for part in ("weight", "bias")
    }
    with atomic(path) as temporary:
        save_file(tensors, temporary)


def _direction_environment(seed: int) -> Any:
    gymnasium = require("gymnasium", "ogbench")
    require("ogbench.online_locomotion", "ogbench")  # registers online-ant-v0
    rng = np.random.default_rng(seed)

    class DirectionCommand(gymnasium.Wrapper):  # type: ignore[name-defined]
        """Appends the commanded direction to the observation and rewards displacement along it."""

        redraw_every = 100

        def __init__(self) -> None:
            super().__init__(gymnasium.make("online-ant-v0"))
            size = self.env.observation_space.shape[0] + 2
            self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)

        def reset(self, **options: Any) -> tuple[Array, dict[str, Any]]:
            observation, info = self.env.reset(**options)
            self.steps, self.direction = 0, unit_vector(rng.normal(size=2))
            return np.concatenate([observation, self.direction]), info

        def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
            before = self.unwrapped.data.qpos[:2].copy()
            observation, _, terminated, truncated, info = self.env.step(action)
            reward = float((self.unwrapped.data.qpos[:2] - before) @ self.direction)
            self.steps += 1
            if self.steps % self.redraw_every == 0:
                self.direction = unit_vector(rng.normal(size=2))
            return np.concatenate([observation, self.direction]), reward, terminated, truncated, info

    return DirectionCommand()


# ---------------------------------------------------------------------------------------------------------- registry


@dataclass(frozen=True)
class Expert:
    """How the policy of a body is trained and measured."""

    train: Callable[[Path, int | None, int], object]  # (folder, steps or None for all, seed)
    measure: Callable[[Path | None, int, int], dict[str, float]]  # (folder or None for the shipped, episodes, seed)


def _measure_medium(body: str, folder: Path | None, episodes: int, seed: int) -> dict[str, float]:
    ladder = runners.Ladder.load(folder / "ladder.safetensors") if folder else runners.Ladder.shipped(body)
    return {"training_steps": ladder.rungs[-1].steps, **runners.measure_actor(body, ladder.actors[-1], episodes, seed)}


EXPERTS: dict[str, Expert] = {
    "ant": Expert(train_ant, lambda folder, episodes, seed: measure_ant(folder or SHIPPED, episodes, seed)),
    **{body: Expert(partial(runner_training.train_runner, body), partial(_measure_medium, body)) for body in RUNNERS},
}
"""By the body that they move."""
