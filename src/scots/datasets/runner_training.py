"""Training runners with SAC, and the ladder of actors that is left of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from scots.core.config import Seeds
from scots.core.console import console, progress
from scots.core.errors import BadInput
from scots.core.files import append_rows, atomic, write_text
from scots.data.npz import read_npz, write_npz
from scots.data.trajectories import Array
from scots.datasets.runners import EPISODE_STEPS, MEDIUM, RUN, Ladder, Rung, RunnerActor, measure_actor
from scots.datasets.sac import SAC
from scots.envs.locomotion import RUNNERS, Locomotion

_CHECKPOINT_EVERY = 10_000
_MORE_CHECKPOINTS = 2  # after the first good one
_EPISODES = 20  # to measure an actor
_RANDOM_STEPS = 10_000  # of uniform actions, before learning begins
_WIDTH, _LEARNING_RATE, _BATCH = 128, 3e-4, 256


class RunnerTraining:
    """A SAC agent, all it has seen, and its generator: what is loaded goes on as if it had never stopped."""

    def __init__(self, body: str, seed: int) -> None:
        self.body, runner = body, RUNNERS[body]
        self.environment, self.rng = Locomotion(runner), Seeds(seed).stream("expert")
        states = len(runner.columns)
        self.sac = SAC(states, runner.actions, _WIDTH, _LEARNING_RATE, self.rng)
        shapes = {"states": (states,), "actions": (runner.actions,), "rewards": (), "next_states": (states,)}
        rows = MEDIUM[body][1] + _CHECKPOINT_EVERY
        self._replay = {
            name: np.zeros((rows, *shape), np.float32) for name, shape in (shapes | {"terminals": ()}).items()
        }
        self.steps = 0

    def advance(self, until: int) -> None:
        """Whole episodes with one update a step, until at least this many steps are done."""
        while self.steps < until:
            observation, _ = self.environment.reset(RUN, self.rng)
            for _ in range(EPISODE_STEPS):
                action = self._action(observation)
                step = self.environment.step(action)
                self._remember(observation, action, step.reward, step.observation, step.done)
                if self.steps > _RANDOM_STEPS:
                    chosen = self.rng.integers(self.steps, size=_BATCH)
                    self.sac.update(tuple(values[chosen] for values in self._replay.values()), self.rng)
                if step.done:
                    break
                observation = step.observation

    def _remember(self, *row: Any) -> None:
        for values, value in zip(self._replay.values(), row, strict=True):
            values[self.steps] = value
        self.steps += 1

    def _action(self, observation: Array) -> Array:
        if self.steps < _RANDOM_STEPS:
            return self.rng.uniform(-1, 1, self.sac.actions).astype(np.float32)
        return self.sac.draw(observation[None], self.rng).actions[0]

    def actor(self) -> RunnerActor:
        """The actor as it is now."""
        return RunnerActor([(weight[0].copy(), bias[0, 0].copy()) for weight, bias in self.sac.actor.layers])

    def save(self, path: Path) -> None:
        """Write everything that decides how training goes on."""
        facts = {"steps": self.steps, "updates": self.sac.updates, "generator": self.rng.bit_generator.state}
        text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        seen = {f"replay.{name}": values[: self.steps] for name, values in self._replay.items()}
        with atomic(path) as temporary:
            write_npz(temporary, {"facts": text, **self.sac.vectors(), **seen})

    def load(self, path: Path) -> None:
        """Go on from what `save` wrote."""
        stored = read_npz(path)
        facts = json.loads(bytes(stored["facts"]))
        self.steps, self.sac.updates, self.rng.bit_generator.state = (
            facts[name] for name in ("steps", "updates", "generator")
        )
        for name, values in self.sac.vectors().items():
            values[:] = stored[name]
        for name, values in self._replay.items():
            values[: self.steps] = stored[f"replay.{name}"]


def train_runner(body: str, out: Path, steps: int | None = None, seed: int = 0) -> Ladder:
    """Train a runner; write its state, an actor every 10,000 steps with how it was measured, and the ladder of them.

    Ends after `steps`, or soon after an actor is medium. The same command goes on after a kill, to the same bytes.
    """
    enough, most = MEDIUM[body]
    steps = most if steps is None else steps
    if not 0 < steps <= most:
        raise BadInput(f"--steps {steps}: expected between 1 and {most:,}")
    training, state, log = RunnerTraining(body, seed), out / "state.npz", out / "log.jsonl"
    if state.exists():
        training.load(state)
    rungs = _measured(log, training.steps)
    console.print(
        f"{body}: SAC up to {steps:,} steps, or until a mean return of {enough:,.0f} over {_EPISODES} episodes"
    )
    with _one_thread(), progress(f"training {body}", steps, "steps", completed=training.steps) as bar:
        while training.steps < steps and not any(rung.return_mean >= enough for rung in rungs[:-_MORE_CHECKPOINTS]):
            before = training.steps
            training.advance(_CHECKPOINT_EVERY * (before // _CHECKPOINT_EVERY + 1))
            actor = training.actor()
            rungs.append(Rung(training.steps, **measure_actor(body, actor, _EPISODES, training.steps)))  # type: ignore[arg-type]
            Ladder((rungs[-1],), (actor,)).save(_actor_path(out, training.steps))
            append_rows(log, [rungs[-1].to_dict()])
            training.save(state)
            bar.advance(training.steps - before)
    actors = [Ladder.load(_actor_path(out, rung.steps)).actors[0] for rung in rungs]
    ladder = Ladder(tuple(rungs), tuple(actors)).up_to(enough)
    ladder.save(out / "ladder.safetensors")
    return ladder


def _one_thread() -> threadpool_limits:
    """Products in one thread, so that they round alike on any number of cores.

    They are so small that a second thread gains nothing, and on busy cores both would mostly wait for each other.
    """
    return threadpool_limits(1, user_api="blas")


def _actor_path(out: Path, steps: int) -> Path:
    return out / f"actor-{steps:07d}.safetensors"


def _measured(log: Path, steps: int) -> list[Rung]:
    """The actors that were measured up to the last checkpoint; a kill may have left one more, which is forgotten."""
    lines = log.read_text().splitlines() if log.exists() else []
    rungs = [rung for line in lines if (rung := Rung.from_dict(json.loads(line))).steps <= steps]
    write_text(log, "".join(json.dumps(rung.to_dict()) + "\n" for rung in rungs))
    return rungs
