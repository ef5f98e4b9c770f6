"""The recorder on real Gymnasium environments, against what the environment said step by step."""

from __future__ import annotations

from itertools import chain
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import scots
from scots.core.errors import BadInput


def play(env: Any, episodes: int, seed: int = 0) -> list[list[tuple[Any, ...]]]:
    """Random actions; what reset and step returned, as a user sees it."""
    env.action_space.seed(seed)
    seen = []
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        steps: list[tuple[Any, ...]] = [(observation,)]
        done = False
        while not done:
            action = env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            steps.append((observation, action, reward, terminated))
            done = terminated or truncated
        seen.append(steps)
    return seen


@pytest.mark.parametrize(("id", "limit"), [("Pendulum-v1", 7), ("CartPole-v1", 15)])
def test_every_step_is_recorded(id: str, limit: int) -> None:
    env = scots.record(gymnasium.make(id, max_episode_steps=limit))
    seen = play(env, episodes=5)
    data = env.trajectories()
    assert data.lengths.tolist() == [len(steps) for steps in seen]
    assert data.terminated.tolist() == [bool(steps[-1][3]) for steps in seen]
    assert data.actions.shape == (data.rows, 1)
    for episode, steps in zip(data.episodes(), seen, strict=True):
        np.testing.assert_array_equal(episode.observations, [step[0] for step in steps])
        np.testing.assert_array_equal(episode.actions[:-1, 0], [np.float32(step[1]).item() for step in steps[1:]])
        np.testing.assert_allclose(episode.rewards[:-1], [step[2] for step in steps[1:]], rtol=1e-6)
        assert episode.actions[-1] == episode.rewards[-1] == 0
    assert (data.meta.environment, data.meta.provenance) == (None, ({"origin": "recorded here", "environment": id},))


def test_cart_poles_that_fall_are_terminated_and_others_truncated() -> None:
    env = scots.record(gymnasium.make("CartPole-v1", max_episode_steps=15))
    play(env, episodes=20)
    data = env.trajectories()
    assert set(data.terminated.tolist()) == {True, False}
    assert (data.lengths[~data.terminated] == 16).all()


def test_the_environment_behaves_as_without_it() -> None:
    plain = play(gymnasium.make("Pendulum-v1", max_episode_steps=5), 2)
    recorded = play(scots.record(gymnasium.make("Pendulum-v1", max_episode_steps=5)), 2)
    for a, b in zip(chain(*plain), chain(*recorded), strict=True):
        np.testing.assert_array_equal(a[0], b[0])


class Goals(gymnasium.Env):
    """Observations in a dictionary, one buffer for all of them; actions of two discrete parts."""

    observation_space = spaces.Dict(
        {
            "state": spaces.Box(-9, 9, (2,)),
            "goal": spaces.Dict({"x": spaces.Box(-9, 9, (1,))}),
            "mode": spaces.Discrete(3),
        }
    )
    action_space = spaces.MultiDiscrete([3, 4])

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.buffer = np.zeros(2, np.float32)
        return self.observe(), {}

    def observe(self) -> dict[str, Any]:
        return {"state": self.buffer, "goal": {"x": np.array([7], np.float32)}, "mode": 1}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.buffer += action
        return self.observe(), 1.0, False, False, {}


def test_dictionaries_are_flattened_and_left_episodes_kept() -> None:
    env = scots.record(Goals())
    env.reset()
    env.reset()  # an episode without a step is none
    env.step(np.array([1, 2]))
    env.step(np.array([2, 3]))
    env.reset()
    env.step(np.array([0, 1]))
    data = env.trajectories()
    assert data.lengths.tolist() == [3, 2]
    columns = list(data.meta.columns)
    assert sorted(columns) == ["goal.x", "mode_0", "mode_1", "mode_2", "state_0", "state_1"]
    state = data.observations[:, [columns.index("state_0"), columns.index("state_1")]]
    assert state.tolist() == [[0, 0], [1, 2], [3, 5], [0, 0], [0, 1]]
    assert (data.observations[:, columns.index("goal.x")] == 7).all()
    assert data.observations[0, [columns.index(f"mode_{n}") for n in range(3)]].tolist() == [0, 1, 0]
    assert data.actions.tolist() == [[1, 2], [2, 3], [0, 0], [0, 1], [0, 0]]
    assert data.terminated.tolist() == [False, False]


def test_what_cannot_be_recorded_is_said() -> None:
    with pytest.raises(BadInput, match="nothing was recorded yet"):
        scots.record(gymnasium.make("CartPole-v1")).trajectories()
    with pytest.raises(BadInput, match="no episode is under way"):
        scots.record(Goals()).step(np.array([1, 2]))
    env = Goals()
    env.observation_space = spaces.Sequence(spaces.Box(0, 1, (2,)))
    with pytest.raises(BadInput, match="no fixed number of columns"):
        scots.record(env)


@pytest.mark.mujoco
def test_a_known_environment_is_named() -> None:
    pytest.importorskip("ogbench", reason="the extra `ogbench` is not installed")
    env = scots.record(gymnasium.make("pointmaze-medium-v0", max_episode_steps=6))
    play(env, 2)
    data = env.trajectories()
    assert data.meta.environment == "pointmaze-medium-v0"
    assert data.lengths.tolist() == [7, 7]
