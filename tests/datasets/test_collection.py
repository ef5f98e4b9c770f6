"""Collection in the real simulator: the protocol's rules, the same bytes for any workers, and after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.shards import Shards, validation_path
from scots.datasets.collect import MazeWalker, collect
from scots.datasets.experts import is_on_back
from scots.datasets.loading import known_meta
from scots.datasets.specs import SPECS, MazeCollection, custom_collection
from scots.envs.maze import MAZES, parse_maze
from scots.envs.ogbench import make_simulator

pytestmark = pytest.mark.mujoco
POINT, ANT = (SPECS[f"{body}maze-medium-stitch-v0"].collection for body in ("point", "ant"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 + 12 episodes: three training shards and one for validation."""
    return collect(POINT.resized(120), tmp_path_factory.mktemp("data") / "a.npz", workers=2)


def test_protocols_are_those_of_the_benchmark():
    mazes = {id: spec.collection for id, spec in SPECS.items() if isinstance(spec.collection, MazeCollection)}
    table = {id: (c.episodes, c.states, c.noise) for id, c in mazes.items()}
    assert len(table) == 8 + 8 + 3
    assert table["pointmaze-giant-stitch-v0"] == (5000, 201, 0.5)
    assert table["pointmaze-giant-navigate-v0"] == (500, 2001, 0.5)
    assert table["antmaze-large-navigate-v0"] == (1000, 1001, 0.2)
    assert table["antmaze-teleport-stitch-v0"] == (5000, 201, 0.2)
    assert table["antmaze-large-explore-v0"] == (10000, 501, 1.0)


@pytest.mark.parametrize("name", MAZES)
def test_maps_and_tasks_are_those_of_the_simulator(name: str):
    environment = make_simulator(known_meta(f"pointmaze-{name}-stitch-v0"))
    assert np.array_equal(environment.maze_map == 1, MAZES[name].walls)
    tasks = tuple((info["init_ij"], info["goal_ij"]) for info in environment.task_infos)
    assert MAZES[name].tasks == (() if name == "teleport" else tasks)  # those of teleport cross its portals
    for cell in MAZES[name].cells:
        assert environment.ij_to_xy(cell) == tuple(MAZES[name].centre(cell))
        assert environment.xy_to_ij(MAZES[name].centre(cell) + 1.9) == cell


@pytest.mark.parametrize("name", MAZES)
def test_waypoint_tables_agree_with_the_oracle(name: str):
    """Our cached tables against OGBench's own path search, for random pairs of places."""
    maze, rng = MAZES[name], np.random.default_rng(0)
    environment = make_simulator(known_meta(f"pointmaze-{name}-stitch-v0"))
    for _ in range(100):
        start, goal = (
            maze.centre(maze.cells[n]) + rng.uniform(-1.9, 1.9, 2) for n in rng.integers(len(maze.cells), size=2)
        )
        expected, _ = environment.get_oracle_subgoal(start, goal)
        assert maze.waypoints(environment.xy_to_ij(goal))[environment.xy_to_ij(start)].tolist() == expected.tolist()


@pytest.mark.slow
def test_files_have_the_keys_types_and_lengths_of_the_benchmark(small: Path):
    for path, episodes in ((small, 120), (validation_path(small), 12)):
        with np.load(path) as file:
            assert {key: (file[key].dtype, file[key].shape[1:]) for key in file if key != "meta"} == {
                "observations": (np.float32, (2,)),
                "actions": (np.float32, (2,)),
                "terminals": (bool, ()),
                "qpos": (np.float32, (2,)),
                "qvel": (np.float32, (2,)),
            }
            assert np.flatnonzero(file["terminals"]).tolist() == [201 * n + 200 for n in range(episodes)]


@pytest.mark.slow
def test_stitch_episodes_walk_four_cells_and_stay(small: Path):
    data, maze = formats.read(small), MAZES["medium"]
    for episode in data.episodes():
        first, last = (tuple(map(int, maze.cell_of(xy))) for xy in episode.positions[[0, -1]])
        assert maze.distances(first)[last] == 4
        assert np.abs(episode.positions[0] - maze.centre(first)).max() <= 1.01
    assert not maze.in_wall(data.positions).any()
    assert np.abs(data.actions).max() <= 1


@pytest.mark.slow
def test_rows_replay_in_the_simulator(small: Path):
    """Setting the state of a row and stepping its action gives the next row."""
    data = formats.read(small)
    environment = make_simulator(data.meta, terminate_at_goal=False)
    environment.reset()
    for row in np.random.default_rng(0).choice(data.window_starts(2), size=100):
        environment.set_state(data.qpos[row].astype(float), data.qvel[row].astype(float))
        following, *_ = environment.step(data.actions[row].astype(float))
        np.testing.assert_allclose(following, data.observations[row + 1], atol=2e-3)


@pytest.mark.slow
def test_origin_is_in_the_file(small: Path):
    meta = formats.read_meta(small)
    assert meta.dataset == POINT.id
    assert meta.provenance[0]["origin"] == "collected here"
    assert meta.provenance[0]["seed"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4])
def test_bytes_do_not_depend_on_workers(small: Path, tmp_path: Path, workers: int):
    again = collect(POINT.resized(120), tmp_path / "a.npz", workers=workers)
    assert again.read_bytes() == small.read_bytes()
    assert validation_path(again).read_bytes() == validation_path(small).read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a-val.npz", "a.npz"]


@pytest.mark.slow
def test_ant_bytes_do_not_depend_on_workers(tmp_path: Path):
    files = [collect(ANT.resized(3), tmp_path / f"{n}.npz", workers=n).read_bytes() for n in (1, 2)]
    assert files[0] == files[1]


@pytest.mark.slow
def test_a_killed_run_continues_to_the_same_bytes(small: Path, tmp_path: Path):
    out = tmp_path / "a.npz"
    command = [sys.executable, "-m", "scots.cli", "data", "collect", POINT.id, "--episodes", "120", "--out", str(out)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    parts = None
    while parts is None or not list(parts.glob("*.npz")):  # until the first shard is there
        parts = next(tmp_path.glob(".a.npz.*.parts"), None)
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in parts.glob("[0-9]*.npz")}
    assert not out.exists()
    continued = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "continuing:" in continued.stderr or len(done) == 4
    assert out.read_bytes() == small.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a-val.npz", "a.npz"]


@pytest.mark.slow
def test_a_stop_between_the_two_files_is_repaired(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Training file in place, validation file not yet, shards still there: the same command finishes."""
    out, protocol, write = tmp_path / "a.npz", POINT.resized(120), Shards.write

    def stops_at_validation(shards, runs, meta, path):
        if path != out:
            raise KeyboardInterrupt
        write(shards, runs, meta, path)

    with monkeypatch.context() as patch:
        patch.setattr(Shards, "write", stops_at_validation)
        with pytest.raises(KeyboardInterrupt):
            collect(protocol, out)
    assert out.exists()
    collect(protocol, out)
    assert out.read_bytes() == small.read_bytes()
    assert validation_path(out).read_bytes() == validation_path(small).read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a-val.npz", "a.npz"]


@pytest.mark.slow
def test_a_finished_run_is_not_repeated_and_another_is_not_overwritten(small: Path):
    before = small.stat().st_mtime_ns
    collect(POINT.resized(120), small)
    assert small.stat().st_mtime_ns == before
    with pytest.raises(BadInput, match="another file is there; --force replaces it"):
        collect(POINT.resized(120), small, seed=1)


@pytest.mark.slow
def test_other_formats_are_written_too(small: Path, tmp_path: Path):
    out = collect(POINT.resized(120), tmp_path / "a.hdf5")
    assert np.array_equal(formats.read(out).observations, formats.read(small).observations)
    assert formats.read(validation_path(out)).rows == 12 * 201


def test_the_shipped_ant_reaches_a_neighbouring_goal():
    walker = MazeWalker(ANT, ANT.meta())
    episodes = [walker.episode(Seeds(7).stream("episode", n)) for n in range(6)]
    reached = [np.linalg.norm(e.arrays["observations"][:, :2] - e.goal, axis=1).min() <= 1.0 for e in episodes]
    assert sum(reached) >= 5
    assert sum(is_on_back(e.arrays["observations"][-1]) for e in episodes) <= 1


def test_the_ant_needs_no_training_library():
    code = "import sys; from scots.datasets.experts import AntActor; AntActor(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"stable_baselines3", "torch"} & set(loaded)


def test_navigate_goes_on_to_new_goals():
    protocol = SPECS["pointmaze-medium-navigate-v0"].collection
    walker = MazeWalker(protocol, protocol.meta())
    episode = walker.episode(Seeds(0).stream("episode", 0))
    cells = {tuple(cell) for cell in MAZES["medium"].cell_of(episode.arrays["observations"][:, :2])}
    assert len(episode.arrays["terminals"]) == 1001
    assert len(cells) > 10


def test_explore_keeps_each_direction_for_ten_steps():
    protocol = SPECS["antmaze-medium-explore-v0"].collection
    episode = MazeWalker(protocol, protocol.meta()).episode(Seeds(0).stream("episode", 0))
    blocks = episode.directions[:500].reshape(50, 10, 2)
    assert (blocks == blocks[:, :1]).all()
    assert len(np.unique(blocks[:, 0], axis=0)) == 50


@pytest.mark.parametrize("agent", ["point", "ant"])
def test_a_custom_maze(tmp_path: Path, agent: str):
    lines = ("########", "#......#", "#.####.#", "#......#", "########", "1,1 -> 3,6", "3,1 -> 1,6")
    maze = parse_maze(lines, "ring")
    protocol = custom_collection(f"{agent}maze-my-ring-stitch-v0")
    assert protocol.id == f"{agent}maze-my-ring-stitch-v0"
    data = formats.read(collect(protocol.resized(4), tmp_path / "ring.npz", maze=maze, workers=1))
    assert not maze.in_wall(data.positions).any()
    environment = make_simulator(data.meta)  # from the file alone
    assert environment.num_tasks == 2
    _, info = environment.reset(options={"task_id": 2})
    assert tuple(maze.cell_of(info["goal"][:2])) == (1, 6)


def test_unwritable_places_are_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        collect(POINT.resized(2), tmp_path / "file" / "a.npz")
