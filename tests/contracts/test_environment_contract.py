"""What every environment keeps to, those that are registered and the example of a new one."""

from functools import cache

import numpy as np
import pytest
from members import LINE, LineEnvironment, line_data

from scots.core.errors import BadInput
from scots.data.trajectories import Array, Meta
from scots.datasets.loading import known_meta, load
from scots.datasets.specs import SPECS
from scots.envs import ENVIRONMENTS, environment_class, tasks_of
from scots.envs.base import Environment, MazeEnvironment, Step, Task
from scots.envs.locomotion import RUNNERS, Locomotion
from scots.envs.navigation import WORLDS
from scots.envs.navigation import make_simulator as make_robot
from scots.envs.ogbench import make_simulator
from scots.envs.vector import vector_environment

EXAMPLE = "line"
MEMBERS: dict[str, type[Environment]] = {**ENVIRONMENTS, EXAMPLE: LineEnvironment}
SPEC_OF = {family: next(spec for id, spec in SPECS.items() if id.startswith(family)) for family in ENVIRONMENTS}
"""The first dataset of every environment."""
SPEC_OF[EXAMPLE] = LINE
METAS = {family: known_meta(SPEC_OF[family].id) for family in ENVIRONMENTS} | {EXAMPLE: line_data().meta}
STEPS = 20

pytestmark = [pytest.mark.mujoco, pytest.mark.parametrize("family", MEMBERS)]


@pytest.fixture(autouse=True)
def _example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, EXAMPLE, LineEnvironment)


@cache
def action_size(family: str) -> int:
    """As the simulator has it where data is collected in one, else as recorded."""
    if family in RUNNERS:
        return Locomotion(RUNNERS[family]).simulator.action_space.shape[0]
    if family == "navigation":
        return make_robot(WORLDS[METAS[family].environment]).robot.vel_shape[0]
    if SPEC_OF[family].collection:
        return make_simulator(METAS[family]).action_space.shape[0]
    return (line_data() if family == EXAMPLE else load(SPEC_OF[family].id)).actions.shape[1]


def actions_of(family: str, count: int = STEPS) -> Array:
    """Random, but each held for a while, so that something moves."""
    return np.random.default_rng(5).uniform(-1, 1, size=(count // 5, action_size(family))).repeat(5, axis=0)


def first_task(meta: Meta) -> Task:
    return tasks_of(meta)[0]


def episode(environment, task: Task, seed: int, actions: Array) -> list[Array]:
    """First observation, goal if there is one, and the observations that actions lead to, all copied as they come."""
    begun = [values.copy() for values in environment.reset(task, np.random.default_rng(seed)) if values is not None]
    return begun + [environment.step(action).observation.copy() for action in actions]


def test_it_is_found_by_the_meta_of_its_data(family: str):
    assert environment_class(METAS[family]) is MEMBERS[family]


def test_tasks_are_numbered_from_one_and_differ(family: str):
    tasks = tasks_of(METAS[family])
    assert [task.number for task in tasks] == list(range(1, len(tasks) + 1))
    assert len({task.label for task in tasks}) == len(tasks)
    assert tasks_of(METAS[family], [len(tasks), 1]) == (tasks[-1], tasks[0])
    for task in tasks:
        MEMBERS[family].check(METAS[family], task)


def test_tasks_that_it_does_not_have_are_named(family: str):
    count = len(tasks_of(METAS[family]))
    for number in (0, -1, count + 1):
        with pytest.raises(BadInput, match=f"task {number}: .* has tasks 1 to {count}"):
            tasks_of(METAS[family], [number])


def test_impossible_tasks_are_refused(family: str):
    kind, meta = MEMBERS[family], METAS[family]
    if not issubclass(kind, MazeEnvironment):  # elsewhere only the environment's own tasks can be run
        with pytest.raises(BadInput, match="has tasks 1 to"):
            kind.check(meta, Task(0, (1e9,), (1e9,)))
        return
    start, goal = first_task(meta).start, first_task(meta).goal
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
    (environment,) = MEMBERS[family].make(METAS[family], 1)
    first, goal = environment.reset(first_task(METAS[family]), np.random.default_rng(0))
    for values in (first, goal) if first_task(METAS[family]).goal else (first,):
        assert values.shape == (SPEC_OF[family].columns,)
        assert values.dtype == np.float32


def test_a_step_is_an_observation_a_reward_and_two_flags(family: str):
    (environment,) = MEMBERS[family].make(METAS[family], 1)
    environment.reset(first_task(METAS[family]), np.random.default_rng(0))
    for action in actions_of(family):
        step = environment.step(action)
        assert isinstance(step, Step)
        assert step.observation.shape == (SPEC_OF[family].columns,)
        assert step.observation.dtype == np.float32
        assert np.isfinite(step.observation).all()
        assert [type(value) for value in step[1:]] == [float, bool, bool]
        assert step.done >= step.success  # success ends an episode


def test_same_seed_same_episode(family: str):
    """To the bit, in an environment that has had episodes before, and in another of the same kind."""
    task, actions = first_task(METAS[family]), actions_of(family)
    used, fresh = MEMBERS[family].make(METAS[family], 2)
    first = episode(used, task, 1, actions)
    episode(used, task, 2, actions)
    for again in (episode(used, task, 1, actions), episode(fresh, task, 1, actions)):
        np.testing.assert_array_equal(first, again)
    assert len(np.unique(first[-len(actions) :], axis=0)) > 1  # the actions move it


def test_neighbours_share_nothing_that_changes(family: str):
    """Two episodes stepped in turn are those that run one after the other."""
    tasks, actions = tasks_of(METAS[family])[:2], actions_of(family)
    alone = [episode(MEMBERS[family].make(METAS[family], 1)[0], task, task.number, actions) for task in tasks]
    pair = MEMBERS[family].make(METAS[family], 2)
    turns = [episode(own, task, task.number, actions[:0]) for own, task in zip(pair, tasks, strict=False)]
    for action in actions:
        for own, path in zip(pair, turns, strict=False):
            path.append(own.step(action).observation)
    for path, expected in zip(turns, alone, strict=True):
        np.testing.assert_array_equal(path, expected)


def test_actions_are_left_as_they_are(family: str):
    (environment,) = MEMBERS[family].make(METAS[family], 1)
    environment.reset(first_task(METAS[family]), np.random.default_rng(0))
    action = np.full(action_size(family), 3.0)
    environment.step(action)
    assert (action == 3).all()


@pytest.mark.slow
def test_the_number_of_workers_changes_nothing(family: str):
    """Observations, goals and what steps lead to, for five episodes of which one stops early."""
    tasks = tasks_of(METAS[family])
    ids = [(tasks[n % len(tasks)], n) for n in range(5)]
    found = []
    for workers in (1, 2, 3):
        with vector_environment(MEMBERS[family], METAS[family], len(ids), workers) as environments:
            arrays = [array for array in environments.reset(ids, seed=4) if array is not None]
            for action in actions_of(family, 10):
                for running in (np.array([0, 1, 2, 3, 4]), np.array([4, 0, 3])):
                    steps = environments.step(running, np.tile(action, (len(running), 1)))
                    arrays += [steps.observations, steps.rewards, steps.successes, steps.dones]
        found.append(arrays)
    assert [array.dtype for array in found[0][-4:]] == [np.float32, np.float64, bool, bool]
    for other in found[1:]:
        for ours, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_episodes_do_not_depend_on_their_company(family: str):
    """Those of a maze differ, as start and goal are drawn near their cells."""
    task = first_task(METAS[family])

    def begin(numbers: list[int], seed: int) -> Array:
        begun = environments.reset([(task, number) for number in numbers], seed=seed)
        return np.stack([values for values in begun if values is not None])

    with vector_environment(MEMBERS[family], METAS[family], 3, workers=1) as environments:
        together, alone, other_seed = begin([0, 1, 2], 0), begin([2], 0), begin([2], 1)
    np.testing.assert_array_equal(together[:, 2], alone[:, 0])
    if issubclass(MEMBERS[family], MazeEnvironment):
        assert not np.array_equal(together[:, 0], together[:, 1])
        assert not np.array_equal(alone, other_seed)
