"""Gymnasium's runners: health limits and names of columns against the simulator itself."""

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.data.trajectories import Meta
from scots.envs.base import Task
from scots.envs.locomotion import RUNNERS, Locomotion, runner_of

pytestmark = [pytest.mark.mujoco, pytest.mark.parametrize("body", RUNNERS)]


def test_columns_and_actions_are_those_of_the_simulator(body: str):
    simulator = Locomotion(RUNNERS[body]).simulator
    assert simulator.observation_space.shape == (len(RUNNERS[body].columns),)
    assert simulator.action_space.shape == (RUNNERS[body].actions,)
    assert (simulator.action_space.low == -1).all()
    assert (simulator.action_space.high == 1).all()
    assert len(set(RUNNERS[body].columns)) == len(RUNNERS[body].columns)


def test_health_limits_are_those_of_the_simulator(body: str):
    """States all over the place, each put into the simulator and asked there."""
    simulator, rng = Locomotion(RUNNERS[body]).simulator, np.random.default_rng(0)
    simulator.reset(seed=0)
    found, expected = [], []
    for _ in range(400):
        qpos, qvel = simulator.init_qpos.copy(), simulator.init_qvel.copy()
        qpos[1], qpos[2] = rng.uniform(0.5, 2.2), rng.uniform(-1.3, 1.3) * rng.choice([0.1, 1])
        qpos[3:] += rng.normal(size=len(qpos) - 3) * rng.choice([1, 200], p=[0.9, 0.1])
        simulator.set_state(qpos, qvel)
        found.append(bool(RUNNERS[body].has_fallen(simulator._get_obs())))
        expected.append(not simulator.is_healthy)
    assert found == expected
    assert 50 < sum(found) < 350


def test_episodes_end_with_a_fall(body: str):
    """A fall is what random actions lead to, and the state after it is the first beyond the limits."""
    environment, rng, meta = Locomotion(RUNNERS[body]), np.random.default_rng(0), Meta(environment=body)
    observation, goal = environment.reset(Task(1), rng)
    assert goal is None
    states, done = [observation], False
    while not done:
        step = environment.step(rng.uniform(-1, 1, RUNNERS[body].actions))
        states.append(step.observation)
        done = step.done
        assert not step.success
    assert Locomotion.termination(meta)(np.stack(states)).tolist() == [False] * (len(states) - 1) + [True]


def test_rewards_are_forward_speed_and_being_alive(body: str):
    environment, rng = Locomotion(RUNNERS[body]), np.random.default_rng(0)
    environment.reset(Task(1), rng)
    for _ in range(10):
        before, action = environment.physics()[0][0], rng.uniform(-1, 1, RUNNERS[body].actions)
        step = environment.step(action)
        speed = (environment.physics()[0][0] - before) / environment.simulator.dt
        assert step.reward == pytest.approx(speed + (not step.done) - 1e-3 * np.square(action).sum(), abs=1e-6)


def test_physics_holds_the_observation(body: str):
    environment = Locomotion(RUNNERS[body])
    observation, _ = environment.reset(Task(1), np.random.default_rng(0))
    qpos, qvel = environment.physics()
    np.testing.assert_allclose(observation, np.concatenate([qpos[1:], np.clip(qvel, -10, 10)]), rtol=1e-6)


def test_a_step_can_be_taken_from_any_observation(body: str):
    """The rows of an episode, replayed one by one in another simulator."""
    environment, other, rng = Locomotion(RUNNERS[body]), Locomotion(RUNNERS[body]), np.random.default_rng(0)
    other.reset(Task(1), rng)
    observation, _ = environment.reset(Task(1), rng)
    for _ in range(10):
        action = rng.uniform(-1, 1, RUNNERS[body].actions)
        step = environment.step(action)
        if np.abs(observation[len(environment.physics()[0]) - 1 :]).max() == 10:  # faster ones are cut off
            break
        again = other.step_from(observation, action)
        np.testing.assert_allclose(again.observation, step.observation, atol=2e-3)
        assert again.reward == pytest.approx(step.reward, abs=5e-3)
        observation = step.observation


def test_other_bodies_are_refused(body: str):
    with pytest.raises(BadInput, match=f"snake-v0: unknown body; known are .*{body}"):
        runner_of(Meta(environment="snake-v0"))
