"""The contract of every format in the registry, and the foreign files that each format reads."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import dataset, trajectories

from scots.core.errors import BadInput
from scots.data import formats
from scots.data.formats import FORMATS
from scots.data.npz import Blocks, read_npz, write_npz
from scots.data.trajectories import Array, Meta, Trajectories

TARGETS = [(name, suffix) for name, format in FORMATS.items() for suffix in format.suffixes]
NPZ = [name for name, format in FORMATS.items() if ".npz" in format.suffixes]


def target_id(target: tuple[str, str]) -> str:
    return f"{target[0]}{target[1] or '-folder'}"


# ------------------------------------------------------------------------------------------------------ every format


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
@settings(max_examples=settings().max_examples // 2)  # for each of many formats
@given(draw=st.data())
def test_round_trip_is_exact(target: tuple[str, str], draw: st.DataObject) -> None:
    name, suffix = target
    data = draw.draw(trajectories(FORMATS[name].min_rows))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        formats.write(data, path, name)
        read = formats.read(path)
        assert read.equals(data)
        assert [values.tobytes() for _, values in read.arrays()] == [values.tobytes() for _, values in data.arrays()]
        assert [item.name for item in Path(folder).iterdir()] == [path.name]


@pytest.mark.parametrize(("first", "second"), list(product(TARGETS, TARGETS)), ids=lambda target: target_id(target))
def test_conversion_is_lossless(first: tuple[str, str], second: tuple[str, str], tmp_path: Path) -> None:
    data = dataset()
    formats.write(data, tmp_path / f"a{first[1]}", first[0])
    formats.write(formats.read(tmp_path / f"a{first[1]}"), tmp_path / f"b{second[1]}", second[0])
    assert formats.read(tmp_path / f"b{second[1]}").equals(data)


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
def test_format_is_detected_or_given(target: tuple[str, str], tmp_path: Path) -> None:
    name, suffix = target
    path = tmp_path / f"data{suffix}"
    formats.write(dataset(), path, name)
    assert formats.detect(path) == name
    assert formats.read(path, name).equals(dataset())


@pytest.mark.parametrize("target", TARGETS, ids=target_id)
def test_second_write_replaces_a_file_but_not_a_folder(target: tuple[str, str], tmp_path: Path) -> None:
    name, suffix = target
    path = tmp_path / f"data{suffix}"
    formats.write(dataset((4, 4)), path, name)
    if suffix:
        formats.write(dataset((2, 3)), path, name)
        assert formats.read(path).lengths.tolist() == [2, 3]
    else:
        with pytest.raises(BadInput, match="folder is not empty and will not be replaced"):
            formats.write(dataset((2, 3)), path, name)
        assert formats.read(path).lengths.tolist() == [4, 4]


@pytest.mark.parametrize("target", [t for t in TARGETS if FORMATS[t[0]].min_rows > 1], ids=target_id)
def test_error_names_an_episode_that_is_too_short(target: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="episode 1 has 1 row"):
        formats.write(dataset((3, 1, 3)), tmp_path / f"data{target[1]}", target[0])
    assert not list(tmp_path.iterdir())


def test_error_for_an_unknown_suffix_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"data\.xyz: .*\.parquet or \.npz or \.hdf5 or \.h5 or \.csv or a folder"):
        formats.write(dataset(), tmp_path / "data.xyz")


def test_wrong_suffix_and_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"d4rl is written to \.hdf5"):
        formats.write(dataset(), tmp_path / "data.csv", "d4rl")
    with pytest.raises(BadInput, match="unknown format 'zarr'; choose from ogbench"):
        formats.write(dataset(), tmp_path / "data.csv", "zarr")


def test_suffix_chooses_the_format(tmp_path: Path) -> None:
    for suffix, name in {".npz": "ogbench", ".h5": "d4rl", ".csv": "csv", ".parquet": "parquet", "": "csv"}.items():
        path = tmp_path / f"data{suffix}"
        formats.write(dataset(), path)
        assert formats.detect(path) == name


# --------------------------------------------------------------------------------------------------------------- npz


@pytest.mark.parametrize("name", NPZ)
def test_npz_bytes_depend_only_on_the_data(name: str, tmp_path: Path) -> None:
    formats.write(dataset(), tmp_path / "a.npz", name)
    formats.write(formats.read(tmp_path / "a.npz"), tmp_path / "b.npz", name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


MEMBERS: dict[str, Array] = {
    "rows": np.arange(12, dtype=np.float32).reshape(4, 3),
    "fortran_order": np.asfortranarray(np.arange(12.0).reshape(4, 3)),
    "empty": np.empty((5, 0), np.float32),
    "text": np.array("a line of text"),
    "flags": np.array([True, False, True]),
    "big_endian": np.arange(5, dtype=">i4"),
}


def test_npz_is_readable_by_numpy_aligned_and_memory_mapped(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_npz(path, MEMBERS)
    ours = read_npz(path)
    with np.load(path, allow_pickle=False) as theirs:
        assert list(theirs) == list(ours) == list(MEMBERS)
        for name, values in MEMBERS.items():
            for read in (theirs[name], ours[name]):
                assert read.dtype == values.dtype
                np.testing.assert_array_equal(read, values)
    rows = ours["rows"]
    assert isinstance(rows.base, np.memmap)
    assert rows.base.offset % 64 == 0
    assert not rows.flags.writeable


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_saved_by_numpy_is_read(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "a.npz", **MEMBERS)
    read = read_npz(tmp_path / "a.npz")
    for name, values in MEMBERS.items():
        np.testing.assert_array_equal(read[name], values)


def test_npz_streams_blocks(tmp_path: Path) -> None:
    whole = np.random.default_rng(0).normal(size=(1000, 7)).astype(np.float32)
    blocks = (whole[row : row + 33] for row in range(0, 1000, 33))
    write_npz(tmp_path / "a.npz", {"x": Blocks(whole.shape, whole.dtype, blocks)})
    write_npz(tmp_path / "b.npz", {"x": whole})
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with pytest.raises(ValueError, match="the blocks hold 7 numbers"):
        write_npz(tmp_path / "c.npz", {"x": Blocks((2, 7), whole.dtype, [whole[:1]])})


def test_npz_detects_every_flipped_bit_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    values = np.random.default_rng(0).normal(size=(4, 2))
    write_npz(path, {"x": values})
    content = bytearray(path.read_bytes())
    begin = content.index(values.tobytes())
    for byte in range(begin, begin + values.nbytes):
        content[byte] ^= 1 << byte % 8
        path.write_bytes(content)
        with pytest.raises(BadInput, match=r"key 'x'.*CRC"):
            read_npz(path)["x"]
        content[byte] ^= 1 << byte % 8


PEAK = """
import resource, sys
from pathlib import Path
from scots.data import formats
formats.read(Path(sys.argv[2]))  # a first read, so that the memory of imports is not counted
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data = formats.read(Path(sys.argv[1]))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True], ids=["stored", "compressed"])
def test_reading_a_large_npz_needs_little_more_memory_than_its_size(compressed: bool, tmp_path: Path) -> None:
    observations = np.tile(np.random.default_rng(0).normal(size=(50, 29)).astype(np.float32), (32_000, 1))
    data = Trajectories(observations=observations, offsets=np.arange(0, 1_600_001, 200), meta=Meta())
    large, small = tmp_path / "large.npz", tmp_path / "small.npz"
    formats.write(dataset(), small)
    if compressed:
        # The fastest level: the test measures reading only.
        with zipfile.ZipFile(large, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, values in {"observations": observations, "offsets": data.offsets}.items():
                with archive.open(f"{name}.npy", "w") as stream:
                    np.lib.format.write_array(stream, values)
    else:
        formats.write(data, large)
    command = [sys.executable, "-c", PEAK, str(large), str(small)]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert peak <= 1.2 * observations.nbytes


# ----------------------------------------------------------------------------------------------------------- ogbench


@pytest.mark.parametrize("compact", [True, False], ids=["compact", "regular"])
def test_ogbench_loads_what_we_write(compact: bool, tmp_path: Path) -> None:
    from ogbench import utils as loader

    data = dataset((3, 2, 4))
    formats.write(data, tmp_path / "a.npz")
    loaded = loader.load_dataset(str(tmp_path / "a.npz"), compact_dataset=compact, add_info=True)
    if compact:
        assert loaded["terminals"].tolist() == [0, 1, 1, 1, 1, 0, 0, 1, 1]
        assert loaded["valids"].tolist() == [1, 1, 0, 1, 0, 1, 1, 1, 0]
        rows = np.arange(9)
    else:
        assert loaded["terminals"].tolist() == [0, 1, 1, 0, 0, 1]
        rows = np.array([0, 1, 3, 5, 6, 7])
        np.testing.assert_array_equal(loaded["next_observations"], data.observations[rows + 1])
    for name in ("observations", "actions", "qpos", "qvel"):
        np.testing.assert_array_equal(loaded[name], getattr(data, name)[rows])


def test_ogbench_loads_data_without_actions(tmp_path: Path) -> None:
    from ogbench import utils as loader

    formats.write(dataset(actions=None), tmp_path / "a.npz")
    assert loader.load_dataset(str(tmp_path / "a.npz"))["actions"].shape == (6, 0)
    assert formats.read(tmp_path / "a.npz").actions is None


@pytest.mark.parametrize(
    ("stem", "meta"),
    [
        ("pointmaze-giant-stitch-v0", Meta(dataset="pointmaze-giant-stitch-v0", position=(0, 1))),
        ("antmaze-large-explore-v0-val", Meta("antmaze-large-explore-v0", position=(0, 1), quaternions=(3,))),
        ("cube-single-play-v0", Meta(dataset="cube-single-play-v0")),
        ("my_augmented", Meta()),
    ],
)
def test_name_of_an_original_ogbench_file_gives_its_metadata(stem: str, meta: Meta, tmp_path: Path) -> None:
    path = tmp_path / f"{stem}.npz"
    observations = np.zeros((6, 8), np.float32)
    terminals = np.array([0, 0, 1, 0, 0, 1], bool)
    np.savez_compressed(path, observations=observations, actions=np.zeros((6, 2)), terminals=terminals)
    data = formats.read(path)
    assert formats.detect(path) == "ogbench"
    assert data.meta == meta
    assert data.offsets.tolist() == [0, 3, 6]


# ------------------------------------------------------------------------------------------------------------- plain

ROWS = np.arange(14, dtype=np.float64).reshape(7, 2)
LAST = np.array([0, 0, 1, 0, 0, 0, 1])
BOUNDARIES: dict[str, dict[str, Any]] = {
    "terminals": {"terminals": LAST},
    "dones": {"dones": LAST.astype(bool)},
    "terminals and timeouts": {"terminals": LAST * [0, 0, 1, 0, 0, 0, 0], "timeouts": [0, 0, 0, 0, 0, 0, 1]},
    "terminations and truncations": {"terminations": LAST * 0, "truncations": LAST.astype(float)},
    "no flag on the last episode": {"dones": [0, 0, 1, 0, 0, 0, 0]},
    "compact, with valids": {"terminals": [0, 1, 1, 0, 0, 1, 1], "valids": 1.0 - LAST},
    "ends": {"episode_ends": [3, 7]},
    "lengths": {"lengths": [3, 4]},
    "episode lengths": {"episode_lengths": np.array([3, 4], np.uint8)},
    "starts": {"episode_starts": [0, 3]},
    "start flags": {"episode_starts": np.array([1, 0, 0, 1, 0, 0, 0], bool)},
    "offsets": {"offsets": [0, 3, 7]},
    "ids": {"episode_ids": [4, 4, 4, 2, 2, 2, 2]},
    "text ids": {"episodes": ["a", "a", "a", "b", "b", "b", "b"]},
    "several that agree": {"episode": [0, 0, 0, 1, 1, 1, 1], "lengths": [3, 4], "terminals": LAST},
    "ends and true terminations": {"episode_ends": [3, 7], "terminals": [0, 0, 1, 0, 0, 0, 0]},
}


@pytest.mark.parametrize("form", BOUNDARIES)
@pytest.mark.parametrize("key", ["observations", "states", "obs"])
def test_plain_reads_every_form_of_boundaries(key: str, form: str, tmp_path: Path) -> None:
    members = {key: ROWS, **BOUNDARIES[form]}
    np.savez(tmp_path / "a.npz", **members)
    data = formats.read(tmp_path / "a.npz")
    assert formats.detect(tmp_path / "a.npz") == "plain"
    assert data.offsets.tolist() == [0, 3, 7]
    np.testing.assert_array_equal(data.observations, ROWS)


def test_plain_reads_stacked_episodes(tmp_path: Path) -> None:
    stacked = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    dones = np.zeros((3, 4), bool)
    np.savez(tmp_path / "a.npz", observations=stacked, actions=stacked, rewards=stacked[..., 0], dones=dones)
    data = formats.read(tmp_path / "a.npz")
    assert data.offsets.tolist() == [0, 4, 8, 12]
    np.testing.assert_array_equal(data.actions, stacked.reshape(12, 2))
    np.testing.assert_array_equal(data.rewards, stacked.reshape(12, 2)[:, 0])


# -------------------------------------------------------------------------------------------------------------- d4rl


def test_d4rl_reads_the_original_layout(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("observations", data=ROWS.astype(np.float32), compression="gzip")
        file["actions"] = ROWS
        file["rewards"] = ROWS[:, 0]
        file["terminals"] = np.array([0, 1, 0, 0, 0, 0, 0], bool)
        file["timeouts"] = np.array([0, 0, 0, 0, 1, 0, 0], bool)
        file["infos/qpos"] = ROWS
        file["metadata/algorithm"] = "SAC"
    data = formats.read(tmp_path / "a.hdf5")
    assert data.offsets.tolist() == [0, 2, 5, 7]
    assert data.terminated is not None
    assert data.terminated.tolist() == [True, False, False]
    np.testing.assert_array_equal(data.qpos, ROWS)
    assert data.qvel is None


def test_d4rl_reads_files_without_timeouts(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["observations"] = ROWS
        file["terminals"] = LAST
    data = formats.read(tmp_path / "a.hdf5")
    assert data.offsets.tolist() == [0, 3, 7]
    assert data.actions is None


def test_d4rl_file_we_write_has_d4rl_keys(tmp_path: Path) -> None:
    formats.write(dataset((3, 2)), tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert file["terminals"][()].tolist() == [False, False, True, False, False]
        assert file["timeouts"][()].tolist() == [False, False, False, False, True]
        assert {"observations", "actions", "rewards", "infos/qpos", "infos/qvel"} <= {*file, *_names(file["infos"])}


def _names(group: h5py.Group) -> list[str]:
    return [f"infos/{name}" for name in group]


# ------------------------------------------------------------------------------------------------------------ minari


def write_minari(path: Path, nested: bool = False, action_space: Any = None) -> None:
    """Write a dataset with Minari itself: two episodes of 2 and 3 transitions."""
    import minari
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    box = spaces.Box(-99, 99, (2,), np.float64)
    path.mkdir()
    storage = MinariStorage.new(
        path / "data",
        spaces.Dict({"observation": box, "desired_goal": box}) if nested else box,
        action_space or box,
    )
    storage.update_metadata({"dataset_id": "test/foreign-v3", "minari_version": minari.__version__})
    episodes = []
    for rows, ended in ((ROWS[:3], True), (ROWS[3:], False)):
        last = np.arange(len(rows) - 1) == len(rows) - 2
        episodes.append(
            EpisodeBuffer(
                observations={"observation": rows, "desired_goal": rows * 0} if nested else rows,
                actions=rows[:-1] + 1,
                rewards=rows[:-1, 0],
                terminations=last & ended,
                truncations=last & (not ended),
                infos={"qpos": rows * 2, "success": np.zeros(len(rows))},
            )
        )
    storage.update_episodes(episodes)


@pytest.mark.parametrize("nested", [False, True], ids=["box", "dictionary"])
def test_minari_reads_a_foreign_dataset(nested: bool, tmp_path: Path) -> None:
    write_minari(tmp_path / "a", nested)
    data = formats.read(tmp_path / "a")
    assert data.meta == Meta(dataset="test/foreign-v3")
    assert data.offsets.tolist() == [0, 3, 7]
    np.testing.assert_array_equal(data.observations, ROWS)
    assert data.actions is not None
    assert data.actions[2:4].tolist() == [[0, 0], [7, 8]]
    assert data.rewards is not None
    assert data.rewards.tolist() == [0, 2, 0, 6, 8, 10, 0]
    np.testing.assert_array_equal(data.qpos, ROWS * 2)
    assert data.terminated is not None
    assert data.terminated.tolist() == [True, False]


def test_minari_refuses_other_spaces(tmp_path: Path) -> None:
    from gymnasium import spaces

    write_minari(tmp_path / "a", action_space=spaces.Discrete(3))
    with pytest.raises(BadInput, match="the action space is Discrete"):
        formats.read(tmp_path / "a")


def test_minari_loads_what_we_write(tmp_path: Path) -> None:
    import minari

    data = dataset((3, 4))
    formats.write(data, tmp_path / "a", "minari")
    loaded = minari.MinariDataset(tmp_path / "a" / "data")
    assert (loaded.id, loaded.total_episodes, loaded.total_steps) == ("pointmaze-giant-stitch-v0", 2, 5)
    assert loaded.spec.version == 0
    assert data.actions is not None
    for episode, (begin, end) in zip(loaded, [(0, 3), (3, 7)], strict=True):
        np.testing.assert_array_equal(episode.observations, data.observations[begin:end])
        np.testing.assert_array_equal(episode.actions, data.actions[begin : end - 1])
        assert loaded.observation_space.contains(episode.observations[0])
        assert episode.terminations[-1] != episode.truncations[-1]
    assert loaded[0].terminations.tolist() == [False, True]


# ------------------------------------------------------------------------------------------------------------ tables


def test_csv_header_decides_the_role_of_each_column(tmp_path: Path) -> None:
    text = "Run, Y ,X,action_left,action_right,Reward,stamp,qpos_0,qvel_0,speed\n"
    rows = ["a,1,2,3,4,5,0.1,6,7,8", "a,1,2,3,4,5,0.2,6,7,8", "b,1,2,3,4,5,0.3,6,7,9"]
    (tmp_path / "a.csv").write_text(text + "\n".join(rows) + "\n")
    data = formats.read(tmp_path / "a.csv")
    assert (data.meta.columns, data.meta.position) == (("Y", "X", "speed"), (1, 0))
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.observations[-1].tolist() == [1, 2, 9]
    assert data.times is not None
    assert data.times.tolist() == [0.1, 0.2, 0.3]
    assert [values.shape for _, values in data.arrays()] == [(3, 3), (3, 2), (3,), (3, 1), (3, 1), (3,)]


@pytest.mark.parametrize("names", [("x", "y"), ("Pos_X", "pos_y"), ("position_x", "position_y"), ("px", "py")])
def test_position_columns_are_recognised_by_name(names: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"speed,{names[0]},{names[1]}\n1,2,3\n")
    assert formats.read(tmp_path / "a.csv").meta.position == (1, 2)


def test_csv_without_episode_column_is_one_episode(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("\ufeffx,y\r\n1,2\r\n\r\n3,4\r\n".encode())
    data = formats.read(tmp_path / "a.csv")
    assert data.offsets.tolist() == [0, 2]
    assert data.meta.columns == ("x", "y")


def test_csv_folder_is_read_in_natural_order(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        (tmp_path / f"log{number}.csv").write_text(f"x,y\n{number},0\n")
    (tmp_path / "notes.txt").write_text("not a table")
    assert formats.read(tmp_path).observations[:, 0].tolist() == [1, 9, 10]


def test_parquet_reads_a_foreign_file(tmp_path: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    table = arrow.table({"traj": ["p", "p", "q"], "x": [1, 2, 3], "y": [0.5, 1.5, 2.5], "t": [0.0, 0.1, 0.2]})
    parquet.write_table(table, tmp_path / "a.parquet")
    data = formats.read(tmp_path / "a.parquet")
    assert data.offsets.tolist() == [0, 2, 3]
    assert (data.meta.columns, data.meta.position) == (("x", "y"), (0, 1))
    assert data.times is not None


def test_csv_files_are_human_readable(tmp_path: Path) -> None:
    data = dataset(
        (2, 2),
        meta=Meta(columns=("x", "y"), position=(0, 1)),
        **dict.fromkeys(("qpos", "qvel", "source", "scores", "generated")),
    )
    formats.write(data, tmp_path / "a.csv")
    first, header, *rows = (tmp_path / "a.csv").read_text().splitlines()
    assert json.loads(first.removeprefix("# meta: "))["meta"]["columns"] == ["x", "y"]
    assert header == "episode,time,reward,x,y,action_0,action_1"
    assert [row.split(",")[0] for row in rows] == ["0", "0", "1", "1"]
    formats.write(data, tmp_path / "b")
    assert sorted(item.name for item in (tmp_path / "b").iterdir()) == [
        "episode_000000.csv",
        "episode_000001.csv",
        "meta.json",
    ]
