"""Goal-conditioned agents: one file each, one line each in `AGENTS`, all read in the same order.

A diff of two of the files is the difference between two papers: the config, how a batch is drawn, the losses, their
sum.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from scots.agents.crl import CRL
from scots.agents.gciql import GCIQL
from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.data.trajectories import Array, GoalMix, Trajectories
from scots.models.training import TrainingConfig


class Policy(Protocol):
    """Anything that says how to get from where it is to a goal."""

    def act(self, observations: Array, goals: Array, rng: np.random.Generator) -> Array:
        """Actions (B, A) in [-1, 1] for observations (B, O) and goals (B, O)."""


AGENTS: dict[str, type[GCIQL] | type[CRL]] = {"gciql": GCIQL, "crl": CRL}

# ---------------------------------------------------------------------------------------------------------- settings

SHARED: dict[str, dict[str, Any]] = {
    "giant": {"discount": 0.995},
    "explore": {"actor_goals": GoalMix(current=0.0, trajectory=0.0, random=1.0, geometric=False)},
}
"""Where the published settings of every agent leave the defaults: a word of the dataset's id -> fields."""

TUNED: dict[str, dict[str, dict[str, Any]]] = {
    "gciql": {"pointmaze": {"alpha": 0.003}, "explore": {"alpha": 0.01}},
    "crl": {"pointmaze": {"alpha": 0.03}, "explore": {"alpha": 0.003}},
}
"""Where those of one agent do: its name -> a word of the dataset's id -> fields."""

SCALES: dict[str, dict[str, Any]] = {
    "smoke": {  # seconds: everything runs, nothing is learned well
        "hidden": (32, 32),
        "normalize": True,
        "training": TrainingConfig(steps=60, batch_size=64, learning_rate=1e-3),
    },
    "laptop": {  # minutes on two CPU cores: enough to get to a subgoal, which is near, so values need not reach far
        "hidden": (256, 256, 256),
        "normalize": True,
        "discount": 0.95,
        "training": TrainingConfig(steps=10_000, batch_size=256, learning_rate=1e-3, schedule="cosine", warmup=200),
    },
}
"""Profile -> fields; the profile "paper" leaves the published sizes as they are."""

HURRIED: dict[str, dict[str, Any]] = {
    "gciql": {"target_rate": 0.98},  # values spread as fast as the targets follow
}
"""What an agent needs beyond its scale when it has less than the published number of steps."""


def configure_agent(name: str, data: Trajectories, profile: Profile = "laptop") -> Any:
    """The config of an agent for a dataset: the published settings for it, at the profile's scale."""
    if name not in AGENTS:
        raise BadInput(f"agent {name!r} is not one of {', '.join(AGENTS)}")
    dataset = data.meta.dataset or ""
    changes: dict[str, Any] = {"profile": profile}
    for word, fields in (*SHARED.items(), *TUNED[name].items()):
        changes |= fields if word in dataset else {}
    if profile != "paper":
        changes |= SCALES[profile] | HURRIED.get(name, {})
    return replace(AGENTS[name].config_class(), **changes)
