"""Frames of pandas and LeRobot's columns: exact round trips, and roles of tables from elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from strategies import dataset, trajectories

from scots.core.errors import BadInput
from scots.data import formats
from scots.data.trajectories import Trajectories

# ------------------------------------------------------------------------------------------------------------- pandas


@given(data=trajectories())
def test_frames_come_back_exactly(data: Trajectories) -> None:
    frame = data.to_pandas()
    assert len(frame) == data.rows
    read = Trajectories.from_pandas(frame)
    assert read.equals(data)
    assert [values.tobytes() for _, values in read.arrays()] == [values.tobytes() for _, values in data.arrays()]


def test_a_selection_of_episodes_keeps_their_terminations() -> None:
    data = dataset((3, 2, 4, 2))
    frame = data.to_pandas()
    assert Trajectories.from_pandas(frame[frame.episode.isin([0, 3])]).equals(data.select([0, 3]))


def test_a_frame_with_a_new_column_is_read_like_any_table() -> None:
    data = dataset((3, 2)).with_meta(columns=("x", "y"))
    frame = data.to_pandas().assign(speed=1.0)
    read = Trajectories.from_pandas(frame, position="x,y", ignore="source_row,generated")
    assert read.meta.columns == ("x", "y", "speed")
    np.testing.assert_array_equal(read.observations[:, :2], data.observations)
    np.testing.assert_array_equal(read.actions, data.actions)


def test_an_episode_that_is_not_numbered_as_written_is_an_error() -> None:
    frame = dataset().to_pandas()
    with pytest.raises(BadInput, match="does not number the 3 episodes"):
        Trajectories.from_pandas(frame.assign(episode=frame.episode + 7))


def track() -> pd.DataFrame:
    """Two interleaved trips, out of order, with a throttle that is the action and a name that only looks like one."""
    return pd.DataFrame(
        {
            "trip": ["b", "a", "b", "a"],
            "clock": [11.0, 21.0, 10.0, 20.0],
            "px": [1, 2, 0, 1],
            "py": [1.0, 2.0, 0.0, 1.0],
            "throttle": [0.1, 0.2, 0.3, 0.4],
            "action_taken": [5, 6, 7, 8],
            "note": list("wxyz"),
        }
    )


def test_named_columns_have_their_roles() -> None:
    data = Trajectories.from_pandas(
        track(), episode="trip", time="clock", position=("px", "py"), state=["action_taken"], actions="throttle"
    )
    assert data.meta.columns == ("px", "py", "action_taken")
    assert data.meta.position == (0, 1)
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.observations.tolist() == [[0, 0, 7], [1, 1, 5], [1, 1, 8], [2, 2, 6]]
    np.testing.assert_allclose(data.actions[:, 0], [0.3, 0.1, 0.4, 0.2])
    assert data.times.tolist() == [10, 11, 20, 21]
    assert data.meta.provenance[0]["flags"]["actions"] == "throttle"


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInput, match="--actions: no column 'steer'; choose from trip, clock"):
        Trajectories.from_pandas(track(), actions="steer")


def test_named_levels_of_the_index_are_columns() -> None:
    frame = track().set_index(["trip", "clock"])
    data = Trajectories.from_pandas(frame, time="clock", ignore="action_taken")
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.meta.columns == ("px", "py", "throttle")


@pytest.mark.parametrize(
    "index",
    [pd.date_range("2024-05-01", periods=3, freq="2s"), pd.to_timedelta([0, 2, 4], unit="s")],
    ids=["dates", "durations"],
)
def test_an_index_of_times_is_the_time(index: pd.Index) -> None:
    data = Trajectories.from_pandas(pd.DataFrame({"x": [0, 1, 2], "y": [0, 0, 0]}, index=index))
    assert np.diff(data.times).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame(np.zeros((2, 2)), columns=["x", "x"]), "column 'x' appears twice"),
        (pd.DataFrame({"x": [], "y": []}), "no rows below the header"),
        (pd.DataFrame({"name": ["a", "b"]}), "no observation columns"),
        ([[0, 1]], "expected a pandas DataFrame, got list"),
    ],
)
def test_a_frame_without_trajectories_is_an_error(frame: object, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Trajectories.from_pandas(frame)


def test_infinity_is_refused() -> None:
    with pytest.raises(BadInput, match=r"row 2, column 0.*not a finite number"):
        Trajectories.from_pandas(pd.DataFrame({"x": [0, 1, np.inf], "y": [0, 0, 0]}))


# ------------------------------------------------------------------------------------------- LeRobot and Hugging Face


def lerobot_frame() -> pd.DataFrame:
    """Two episodes with the columns that LeRobot writes."""
    rows = np.arange(5)
    return pd.DataFrame(
        {
            "observation.state": [np.array([row, row + 0.5, 9], np.float32) for row in rows],
            "action": [np.array([row, -row], np.float32) for row in rows],
            "timestamp": np.array([0, 0.1, 0.2, 0, 0.1], np.float32),
            "frame_index": [0, 1, 2, 0, 1],
            "episode_index": [0, 0, 0, 1, 1],
            "index": rows,
            "task_index": 0,
            "next.reward": rows * 2.0,
            "next.done": [False, False, True, False, True],
        }
    )


def check_lerobot(data: Trajectories) -> None:
    assert data.meta.columns == ("observation.state_0", "observation.state_1", "observation.state_2")
    assert data.offsets.tolist() == [0, 3, 5]
    assert data.observations[:, 1].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
    assert data.actions.tolist() == [[row, -row] for row in range(5)]
    assert data.rewards.tolist() == [0, 2, 4, 6, 8]
    np.testing.assert_allclose(data.times, [0, 0.1, 0.2, 0, 0.1], atol=1e-7)
    left_out = data.meta.provenance[0]["left out"]
    assert left_out == (
        "frame_index (another time), index (identifier), task_index (identifier), next.done (end of an episode)"
    )


def test_lerobot_columns_of_a_frame_have_their_roles() -> None:
    check_lerobot(Trajectories.from_pandas(lerobot_frame()))


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed-size", "lists"])
def test_lerobot_file_of_others_is_read(fixed: bool, tmp_path: Path) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    table = arrow.Table.from_pandas(lerobot_frame())
    if fixed:
        for number, (name, size) in enumerate({"observation.state": 3, "action": 2}.items()):
            kind = arrow.list_(arrow.float32(), size)
            table = table.set_column(number, name, table.column(name).cast(kind))
    parquet.write_table(table, tmp_path / "file-000.parquet")
    assert formats.detect(tmp_path / "file-000.parquet") == formats.detect(tmp_path) == "lerobot"
    check_lerobot(formats.read(tmp_path))


def test_lerobot_file_has_lerobots_columns(tmp_path: Path) -> None:
    data = dataset((3, 2), columns=3)
    data.save(tmp_path / "a.parquet", "lerobot")
    frame = pd.read_parquet(tmp_path / "a.parquet")
    assert np.stack(frame["observation.state"]).tolist() == data.observations.tolist()
    assert np.stack(frame["action"]).tolist() == data.actions.tolist()
    assert frame["timestamp"].tolist() == data.times.tolist()
    assert frame["frame_index"].tolist() == [0, 1, 2, 0, 1]
    assert frame["episode_index"].tolist() == [0, 0, 0, 1, 1]
    assert frame["next.done"].tolist() == [False, False, True, False, True]


def test_lists_of_unequal_length_are_left_out() -> None:
    frame = pd.DataFrame({"x": [0, 1], "y": [0, 1], "rays": [[1.0, 2.0], [1.0]]})
    assert Trajectories.from_pandas(frame).meta.columns == ("x", "y")


@pytest.mark.parametrize("format", ["parquet", "lerobot"])
def test_hugging_face_loads_what_we_write_and_gives_it_back(format: str, tmp_path: Path) -> None:
    pytest.importorskip("datasets.arrow_dataset", reason="Hugging Face datasets is not installed")
    import datasets

    data = dataset((3, 2))
    data.save(tmp_path / "a.parquet", format)
    files = str(tmp_path / "a.parquet")
    loaded = datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.num_rows == data.rows
    read = Trajectories.from_pandas(loaded.to_pandas())
    np.testing.assert_array_equal(read.observations, data.observations)
    np.testing.assert_array_equal(read.actions, data.actions)
    assert read.offsets.tolist() == data.offsets.tolist()
