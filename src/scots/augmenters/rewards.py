"""Rewards and endings of stitched trajectories: a learned r(s, a), and where a trajectory is over.

Both models are sized and trained like the inverse dynamics, whose settings they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from scots.augmenters.refinement import InverseDynamicsConfig
from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta, Normalizer, Trajectories
from scots.envs import ENVIRONMENTS, environment_class
from scots.models.nets import Scale, feature_sizes, mlp
from scots.models.training import Batch, Model

Ends = Callable[[Array], Array]
"""Whether an episode is over in each of these states: (T, O) -> (T,)."""


class RewardModel(Model):
    """r = f(s, a): an MLP that predicts rewards in units of their deviation."""

    config_class = InverseDynamicsConfig
    reward_scale: Tensor  # (2,) mean and deviation

    def __init__(self, config: InverseDynamicsConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.states, self.actions = Scale(sizes["observation"], sizes.get("angles", 0)), Scale(sizes["action"])
        shape = (sizes["observation"] + sizes["action"], *config.hidden, 1)
        self.net = mlp(shape, layer_norm=False, dropout=config.dropout)
        self.register_buffer("reward_scale", torch.tensor([0.0, 1.0]))

    @classmethod
    def for_data(cls, config: InverseDynamicsConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for the states, actions and rewards of a dataset."""
        if data.actions is None or data.rewards is None:
            raise BadInput("this dataset has no actions or no rewards, so no reward can be learned from them")
        observation = feature_sizes("observation", data.observations.shape[1], data.meta.angles)
        model = cls(config, {**observation, "action": data.actions.shape[1]})
        model.states.fit_angles(data.observations, data.meta.angles)
        model.states.fit(Normalizer.fit(model.states.array_features(data.observations)))
        model.actions.fit(Normalizer.fit(data.actions))
        rewards = Normalizer.fit(data.rewards[:, None])
        model.reward_scale.copy_(torch.tensor([rewards.mean[0], rewards.std[0]]))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Transitions, uniform over the dataset."""
        assert data.actions is not None
        assert data.rewards is not None
        rows = data.random_rows(2, size, rng)
        arrays = {"state": data.observations[rows], "action": data.actions[rows], "reward": data.rewards[rows]}
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Mean squared error in units of the deviation of rewards: the share of their variance that is missed."""
        mean, deviation = self.reward_scale
        target = (batch["reward"] - mean) / deviation
        return functional.mse_loss(self._predict(batch["state"], batch["action"]), target), {}

    def _predict(self, state: Tensor, action: Tensor) -> Tensor:
        return self.net(torch.cat([self.states(state), self.actions(action)], dim=-1)).squeeze(-1)

    @torch.inference_mode()
    def label(self, states: Array, actions: Array) -> Array:
        """The rewards (B,) of actions (B, A) in states (B, O)."""
        tensors = (torch.tensor(values, device=self.device) for values in (states, actions))
        mean, deviation = self.reward_scale
        return (mean + deviation * self._predict(*tensors)).cpu().numpy()


class TerminationModel(Model):
    """Whether a state ends an episode: an MLP classifier, learned from states in which recorded ones ended.

    Half of a batch are such states. Its answer is corrected for their true share, so that it calls a state terminal if
    that is more likely than not.
    """

    config_class = InverseDynamicsConfig
    prior: Tensor  # log odds of a terminal state among all states

    def __init__(self, config: InverseDynamicsConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.scale = Scale(sizes["observation"], sizes.get("angles", 0))
        self.net = mlp((sizes["observation"], *config.hidden, 1), layer_norm=False, dropout=config.dropout)
        self.register_buffer("prior", torch.zeros(()))

    @classmethod
    def for_data(cls, config: InverseDynamicsConfig, data: Trajectories, **sizes: int) -> Self:
        """Sized and scaled for the states of a dataset that has both kinds."""
        terminal = int(is_terminal_row(data).sum())
        if terminal in (0, data.rows):
            raise BadInput("no episode of this dataset ended in a terminal state, or all states are: nothing to learn")
        model = cls(config, feature_sizes("observation", data.observations.shape[1], data.meta.angles))
        model.scale.fit_angles(data.observations, data.meta.angles)
        model.scale.fit(Normalizer.fit(model.scale.array_features(data.observations)))
        model.prior.fill_(float(np.log(terminal / (data.rows - terminal))))
        return model

    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Terminal states and others, drawn with equal chances."""
        assert data.terminated is not None
        terminal = rng.choice(data.offsets[1:][data.terminated] - 1, size=size)
        flags, anywhere = is_terminal_row(data), rng.integers(data.rows, size=4 * size)
        others = rng.choice(anywhere[~flags[anywhere]], size=size)
        rows = np.where(rng.random(size) < 0.5, terminal, others)
        arrays = {"state": data.observations[rows], "terminal": flags[rows].astype(np.float32)}
        return {name: torch.from_numpy(values) for name, values in arrays.items()}

    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """Cross-entropy."""
        logits = self.net(self.scale(batch["state"])).squeeze(-1)
        return functional.binary_cross_entropy_with_logits(logits, batch["terminal"]), {}

    @torch.inference_mode()
    def ends(self, states: Array) -> Array:
        """Whether each state (B, O) is more likely terminal than not (B,)."""
        logits = self.net(self.scale(torch.tensor(states, device=self.device))).squeeze(-1)
        return (logits + self.prior > 0).cpu().numpy()


def is_terminal_row(data: Trajectories) -> Array:
    """True on the last row of episodes that ended in a terminal state (N,); nowhere if that was not recorded."""
    flags = np.zeros(data.rows, dtype=bool)
    if data.terminated is not None:
        flags[data.offsets[1:][data.terminated] - 1] = True
    return flags


def environment_ends(meta: Meta) -> Ends | None:
    """The rule of the data's environment, if it has one that states alone decide."""
    known = (meta.environment or "").partition("-")[0] in ENVIRONMENTS
    return environment_class(meta).termination(meta) if known else None


def until_terminal(rows: Array, terminal: Array) -> Array:
    """The source rows (T,) of a stitched trajectory up to the first in which an episode ended (`terminal` flags (N,)).

    What was stitched to that is cut before joins are repaired: a state at a join may be made anew, and would then
    no longer look like an end.
    """
    ended = np.flatnonzero(terminal[rows])
    return rows[: ended[0] + 1] if ended.size else rows


def kept_states(states: Array, rows: Array, made: Array, terminal: Array, ends: Ends | None) -> tuple[int, bool]:
    """How many states of a stitched trajectory (T, O) there are until it is over, and whether it is over by then.

    It ends at a recorded state in which an episode ended (`terminal` flags (N,), by source rows (T,)), and at a state
    that was made if `ends` says so.
    """
    over = terminal[rows] & ~made
    if ends is not None and made.any():
        over[made] = ends(states[made])
    ended = np.flatnonzero(over)
    return (int(ended[0]) + 1, True) if ended.size else (len(states), False)


def label_rewards(
    states: Array, actions: Array, rows: Array, made: Array, recorded: Array, model: RewardModel, keep_actions: bool
) -> Array:
    """Rewards (T,) along a stitched trajectory (T, O) of these source rows (T,); `made` are the refined states (T,).

    Recorded rewards (N,) are kept where recorded actions are. The last state has no step to be rewarded for.
    """
    rewards = np.zeros(len(states), dtype=np.float32)
    steps = np.arange(len(states) - 1)
    is_kept = ~made[:-1] & ~made[1:] & (np.diff(rows) == 1) & keep_actions
    rewards[steps[is_kept]] = recorded[rows[steps[is_kept]]]
    labelled = steps[~is_kept]
    rewards[labelled] = model.label(states[labelled], actions[labelled])
    return rewards
