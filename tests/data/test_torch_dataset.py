"""Windows and transitions for a DataLoader, against loops; pickling without copying what is mapped."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import dataset, trajectories
from torch.utils.data import DataLoader

from scots.core.errors import BadInput
from scots.data import formats
from scots.data.trajectories import Trajectories


@given(data=trajectories(), horizon=st.integers(1, 4))
def test_windows_are_those_of_a_loop(data: Trajectories, horizon: int) -> None:
    expected = [
        (episode.observations[t : t + horizon], episode.actions, t)
        for episode in data.episodes()
        for t in range(len(episode.observations) - horizon + 1)
    ]
    if not expected:
        with pytest.raises(BadInput, match="no episode has"):
            data.to_torch(horizon)
        return
    windows = data.to_torch(horizon)
    assert len(windows) == len(expected)
    for number, (observations, actions, t) in enumerate(expected):
        item = windows[number]
        np.testing.assert_array_equal(item["observations"], observations)
        assert ("actions" in item) == (actions is not None)
        if actions is not None:
            np.testing.assert_array_equal(item["actions"], actions[t : t + horizon - 1])


def test_transitions_say_which_of_them_end_in_a_terminal_state() -> None:
    data = dataset((3, 1, 2, 2), terminated=[True, True, False, True])
    items = list(data.to_torch())
    assert [bool(item["terminated"]) for item in items] == [False, True, False, True]
    for item, row in zip(items, [0, 1, 4, 6], strict=True):
        for name, expected in {
            "observations": data.observations[row],
            "next_observations": data.observations[row + 1],
            "actions": data.actions[row],
            "rewards": data.rewards[row],
        }.items():
            np.testing.assert_array_equal(item[name], expected)


def test_items_end_and_count_from_the_end() -> None:
    windows = dataset((3, 4)).to_torch(2)
    np.testing.assert_array_equal(windows[-1]["observations"], windows[4]["observations"])
    for number in (5, -6):
        with pytest.raises(IndexError):
            windows[number]
    with pytest.raises(BadInput, match="at least 1 state"):
        dataset().to_torch(0)


def test_a_data_loader_with_spawned_workers_makes_batches(tmp_path: Path) -> None:
    formats.write(dataset((9, 9)), tmp_path / "a.npz")
    data = formats.read(tmp_path / "a.npz")
    loader = DataLoader(data.to_torch(4), batch_size=6, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)
    assert [batch["observations"].shape for batch in batches] == [(6, 4, 2), (6, 4, 2)]
    assert batches[0]["actions"].shape == (6, 3, 2)
    found = torch.cat([batch["observations"] for batch in batches])
    np.testing.assert_array_equal(found, data.windows(data.window_starts(4), 4))


@pytest.mark.parametrize("episodes", [slice(None), slice(300, 900)])
def test_mapped_data_is_pickled_by_its_place_in_the_file(episodes: slice, tmp_path: Path) -> None:
    formats.write(dataset((10,) * 1000, columns=20), tmp_path / "a.npz")
    data = formats.read(tmp_path / "a.npz")[episodes]
    content = pickle.dumps(data.to_torch(3))
    assert len(content) < 20_000 < data.observations.nbytes
    again = pickle.loads(content)
    assert again.data.equals(data)
    np.testing.assert_array_equal(again[17]["observations"], data.to_torch(3)[17]["observations"])


def test_data_in_memory_is_pickled_whole() -> None:
    data = dataset()
    assert pickle.loads(pickle.dumps(data.to_torch())).data.equals(data)


def test_import_of_the_package_does_not_import_torch_or_pandas() -> None:
    code = "import sys, scots; print(sorted({'torch', 'pandas', 'gymnasium'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
