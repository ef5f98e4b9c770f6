"""What every registered environment keeps to, only because it is registered."""

import numpy as np
import pytest

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta
from scots.datasets.loading import known_meta
from scots.datasets.specs import SPECS
from scots.envs import ENVIRONMENTS, environment_class, tasks_of
from scots.envs.base import MazeEnvironment, Step, Task
from scots.envs.vector import vector_environment

DATASETS = {family: next(id for id in SPECS if id.startswith(family)) for family in ENVIRONMENTS}
"""The first dataset of every environment."""
METAS = {family: known_meta(dataset) for family, dataset in DATASETS.items()}
COLUMNS = {family: SPECS[dataset].columns for family, dataset in DATASETS.items()}
ACTIONS = {"toy": 2, "pointmaze": 2, "antmaze": 8}
STEPS = 20

pytestmark = [pytest.mark.mujoco, pytest.mark.parametrize("family", ENVIRONMENTS)]


def actions_of(family: str, count: int = STEPS) -> Array:
    """Random, but each held for a while, so that something moves."""
    return np.random.default_rng(5).uniform(-1, 1, size=(count // 5, ACTIONS[family])).repeat(5, axis=0)


def first_task(meta: Meta) -> Task:
    return tasks_of(meta)[0]


def episode(environment, task: Task, seed: int, actions: Array) -> list[Array]:
    """First observation, goal, and the observations that actions lead to, all copied as they come."""
    first, goal = environment.reset(task, np.random.default_rng(seed))
    return [first.copy(), goal.copy(), *(environment.step(action).observation.copy() for action in actions)]


def test_it_is_found_by_the_meta_of_its_data(family: str):
    assert environment_class(METAS[family]) is ENVIRONMENTS[family]


def test_tasks_are_numbered_from_one_and_differ(family: str):
    tasks = tasks_of(METAS[family])
    assert [task.number for task in tasks] == list(range(1, len(tasks) + 1))
    assert len({task.label for task in tasks}) == len(tasks)
    assert tasks_of(METAS[family], [3, 1]) == (tasks[2], tasks[0])
    for task in tasks:
        ENVIRONMENTS[family].check(METAS[family], task)


@pytest.mark.parametrize("number", [0, -1, 6])
def test_tasks_that_it_does_not_have_are_named(family: str, number: int):
    with pytest.raises(BadInput, match=f"task {number}: .* has tasks 1 to 5"):
        tasks_of(METAS[family], [number])


def test_impossible_tasks_are_refused(family: str):
    kind, meta = ENVIRONMENTS[family], METAS[family]
    start, goal = first_task(meta).start, first_task(meta).goal
    assert issubclass(kind, MazeEnvironment)
    kind.check(meta, Task(0, goal, start))  # one of the user's own
    for task, complaint in (
        (Task(0, (0, 0), goal), "the start 0,0 is inside a wall"),
        (Task(0, start, (0, 0)), "the goal 0,0 is inside a wall"),
        (Task(0, (99, 1), goal), "the start 99,1 is outside the map"),
        (Task(0, (-1, 1), goal), "the start -1,1 is outside the map"),
        (Task(0), "the start .* is no cell"),
        (Task(0, start, (1, 1, 1)), "the goal 1,1,1 is no cell"),
        (Task(0, (1.5, 1), goal), "the start 1.5,1 is no cell"),
    ):
        with pytest.raises(BadInput, match=complaint):
            kind.check(meta, task)


def test_an_episode_begins_with_an_observation_and_a_goal_of_the_size_of_the_data(family: str):
    (environment,) = ENVIRONMENTS[family].make(METAS[family], 1)
    first, goal = environment.reset(first_task(METAS[family]), np.random.default_rng(0))
    assert first.shape == goal.shape == (COLUMNS[family],)
    assert first.dtype == goal.dtype == np.float32


def test_a_step_is_an_observation_a_reward_and_two_flags(family: str):
    (environment,) = ENVIRONMENTS[family].make(METAS[family], 1)
    environment.reset(first_task(METAS[family]), np.random.default_rng(0))
    for action in actions_of(family):
        step = environment.step(action)
        assert isinstance(step, Step)
        assert step.observation.shape == (COLUMNS[family],)
        assert step.observation.dtype == np.float32
        assert np.isfinite(step.observation).all()
        assert [type(value) for value in step[1:]] == [float, bool, bool]
        assert step.done >= step.success  # success ends an episode


def test_same_seed_same_episode(family: str):
    """To the bit, in an environment that has had episodes before, and in another of the same kind."""
    task, actions = first_task(METAS[family]), actions_of(family)
    used, fresh = ENVIRONMENTS[family].make(METAS[family], 2)
    first = episode(used, task, 1, actions)
    other = episode(used, task, 2, actions)
    for again in (episode(used, task, 1, actions), episode(fresh, task, 1, actions)):
        np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first[2:], axis=0)) > 1  # the actions move it


def test_neighbours_share_nothing_that_changes(family: str):
    """Two episodes stepped in turn are those that run one after the other."""
    tasks, actions = tasks_of(METAS[family])[:2], actions_of(family)
    alone = [episode(ENVIRONMENTS[family].make(METAS[family], 1)[0], task, task.number, actions) for task in tasks]
    pair = ENVIRONMENTS[family].make(METAS[family], 2)
    turns = [list(own.reset(task, np.random.default_rng(task.number))) for own, task in zip(pair, tasks, strict=True)]
    for action in actions:
        for own, path in zip(pair, turns, strict=True):
            path.append(own.step(action).observation)
    for path, expected in zip(turns, alone, strict=True):
        np.testing.assert_array_equal(path, expected)


def test_actions_are_left_as_they_are(family: str):
    (environment,) = ENVIRONMENTS[family].make(METAS[family], 1)
    environment.reset(first_task(METAS[family]), np.random.default_rng(0))
    action = np.full(ACTIONS[family], 3.0)
    environment.step(action)
    assert (action == 3).all()


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(family: str):
    """Observations, goals and what steps lead to, for five episodes of which one stops early."""
    ids = [(task, number) for task in tasks_of(METAS[family])[:2] for number in (0, 1)] + [
        (tasks_of(METAS[family])[2], 0)
    ]
    found = []
    for workers in (1, 2, 3):
        with vector_environment(ENVIRONMENTS[family], METAS[family], len(ids), workers) as environments:
            arrays = [*environments.reset(ids, seed=4)]
            for action in actions_of(family, 10):
                for running in (np.array([0, 1, 2, 3, 4]), np.array([4, 0, 3])):
                    steps = environments.step(running, np.tile(action, (len(running), 1)))
                    arrays += [steps.observations, steps.rewards, steps.successes, steps.dones]
        found.append(arrays)
    assert [array.dtype for array in found[0]][:4] == [np.float32, np.float32, np.float32, np.float64]
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_episodes_of_a_task_differ_and_do_not_depend_on_their_company(family: str):
    task = first_task(METAS[family])
    with vector_environment(ENVIRONMENTS[family], METAS[family], 3, workers=1) as environments:
        together = np.stack(environments.reset([(task, 0), (task, 1), (task, 2)], seed=0))
        alone = np.stack(environments.reset([(task, 2)], seed=0))
        other_seed = np.stack(environments.reset([(task, 2)], seed=1))
    np.testing.assert_array_equal(together[:, 2], alone[:, 0])
    assert not np.array_equal(together[:, 0], together[:, 1])
    assert not np.array_equal(alone, other_seed)
