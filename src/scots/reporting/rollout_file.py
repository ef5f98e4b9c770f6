"""Recorded episodes as a file: what `scots evaluate --rollouts` writes and `scots app` plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.core.files import check_input, write_text
from scots.data.trajectories import Array, Meta
from scots.envs import environment_class
from scots.reporting.rollouts import Rollout

Point = tuple[float, ...]


@dataclass(frozen=True)
class SavedPlan(Config):
    """A plan and the step of the episode at which it was made."""

    step: int
    positions: tuple[Point, ...]


@dataclass(frozen=True)
class SavedRollout(Config):
    """One episode seen from above: positions, and what it was heading for."""

    label: str  # such as "task 1: reached in 120 steps"
    positions: tuple[Point, ...]  # one per step, and the first
    goal: Point | None
    subgoals: tuple[Point, ...]  # one per step; none without a planner
    plans: tuple[SavedPlan, ...]

    @classmethod
    def of(cls, rollout: Rollout, meta: Meta) -> Self:
        """What is kept of a recorded episode: where it was on the map."""
        episode, environment = rollout.episode, environment_class(meta)
        assert episode.observations is not None
        return cls(
            label=rollout.label,
            positions=_points(environment.positions(meta, episode.observations)),
            goal=None if episode.goal is None else _points(environment.positions(meta, episode.goal[None]))[0],
            subgoals=tuple(_points(subgoal[None])[0] for subgoal in rollout.subgoals),
            plans=tuple(SavedPlan(step, _points(positions)) for step, positions in rollout.plans.items()),
        )


@dataclass(frozen=True)
class RolloutFile(Config):
    """All episodes that were recorded of one planner and agent."""

    dataset: str | None
    rollouts: tuple[SavedRollout, ...]


def save_rollouts(rollouts: Sequence[Rollout], meta: Meta, path: Path) -> None:
    """Write recorded episodes as JSON."""
    write_text(path, RolloutFile(meta.dataset, tuple(SavedRollout.of(own, meta) for own in rollouts)).to_json())


def load_rollouts(path: Path) -> tuple[SavedRollout, ...]:
    """Read what `save_rollouts` wrote."""
    check_input(path)
    try:
        return RolloutFile.from_json(path.read_text(encoding="utf-8")).rollouts
    except (BadInput, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a file of `scots evaluate --rollouts` ({error}); write it again") from error


def _points(positions: Array) -> tuple[Point, ...]:
    return tuple(tuple(round(value, 4) for value in own) for own in positions.astype(float).tolist())
