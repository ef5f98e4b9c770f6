"""Street tracks: the map measures distances exactly, and the tracks are drives on it as a logger would record them."""

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.cli import main
from scots.core.errors import BadInput
from scots.data import formats
from scots.data.choices import Choices
from scots.data.trajectories import Array, Trajectories
from scots.datasets import streets
from scots.datasets.streets import Street, Streets


@pytest.fixture(scope="module")
def network() -> Streets:
    return Streets()


@pytest.fixture(scope="module")
def tracks() -> Trajectories:
    return streets.make()


def naive_distance(position: Array, network: Streets) -> float:
    """The smallest distance to any of many points on the streets."""
    return min(float(np.linalg.norm(street.along(0.2) - position, axis=1).min()) for street in network.streets)


# -------------------------------------------------------------------------------------------------------------- the map


def test_distances_in_closed_form(network: Streets) -> None:
    straight = next(street for street in network.streets if len(street.points) == 2)
    start, end = straight.points
    way = (end - start) / np.linalg.norm(end - start)
    left = np.array([-way[1], way[0]])
    middle = (start + end) / 2
    positions = np.array([start, middle, middle + 7 * left, middle - 4 * left, (-1000, 810)])
    assert network.distance(positions) == pytest.approx([0, 0, 7, 4, 1030], abs=1e-9)
    assert network.on_street(positions).tolist() == [True, True, False, True, False]
    assert network.on_street(positions, tolerance=8).tolist() == [True, True, True, True, False]


@given(st.lists(st.tuples(st.floats(-200, 1200), st.floats(-200, 1200)), min_size=1, max_size=3))
def test_distances_are_those_of_a_naive_search(positions: list[tuple[float, float]]) -> None:
    network, found = Streets(), np.array(positions)
    assert network.distance(found) == pytest.approx([naive_distance(each, network) for each in found], abs=0.11)


def test_distances_do_not_depend_on_blocks(network: Streets, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = np.random.default_rng(0).uniform(0, 1000, (50, 2)).astype(np.float32)
    whole, covered = network.distance(positions), network.coverage(positions, within=100)
    monkeypatch.setattr(streets, "_BLOCK", 7)
    assert np.array_equal(network.distance(positions), whole)
    assert np.array_equal(network.coverage(positions, within=100), covered)


def test_points_along_a_street_are_evenly_near() -> None:
    street = Street(("A", "B"), np.array([(0.0, 0.0), (3.0, 4.0), (3.0, 10.0)]))
    points = street.along(1.0)
    assert street.length == pytest.approx(11)
    assert len(points) == 12
    assert np.allclose(np.linalg.norm(np.diff(points, axis=0), axis=1), 1)
    assert np.array_equal(points[[0, 5, -1]], street.points)
    assert np.allclose(street.from_end("B").along(1.0), points[::-1])


def test_streets_meet_at_junctions_alone(network: Streets) -> None:
    for one, other in combinations(network.streets, 2):
        shared = set(one.ends) & set(other.ends)
        points = one.along(2.0)
        for junction in shared:
            joint = one.points[-one.ends.index(junction)]
            points = points[np.linalg.norm(points - joint, axis=1) > 60]
        gaps = np.linalg.norm(points[:, None] - other.along(2.0), axis=-1)
        assert gaps.min() > 25, f"{one.ends} and {other.ends} are too near to tell apart"


def test_coverage_is_the_share_of_a_street_that_was_passed(network: Streets) -> None:
    street = network.streets[2]
    half = street.along(5.0)[: len(street.along(5.0)) // 2]
    shares = network.coverage(half, within=1.0)
    assert shares[2] == pytest.approx(0.5, abs=0.02)
    assert np.delete(shares, 2).max() < 0.05


# --------------------------------------------------------------------------------------------------------------- routes


@given(st.integers(0, 25), st.floats(50, 2500), st.integers(0, 1000))
def test_routes_are_connected_and_long_enough(first: int, length: float, seed: int) -> None:
    network = Streets()
    route = network.route(first, length, np.random.default_rng(seed))
    assert set(route[0].ends) == set(network.streets[first].ends)
    assert sum(street.length for street in route) >= length
    for street, following in pairwise(route):
        assert street.ends[1] == following.ends[0]
        assert street.ends[0] != following.ends[1]
        assert np.array_equal(street.points[-1], following.points[0])


# --------------------------------------------------------------------------------------------------------------- tracks


def test_size_and_meta(tracks: Trajectories) -> None:
    assert len(tracks) == 60
    assert 10_000 < tracks.rows < 14_000
    assert tracks.lengths.min() >= 30
    assert tracks.lengths.max() <= 400
    assert tracks.meta.columns == ("x", "y", "heading", "speed")
    assert tracks.meta.position == (0, 1)
    assert tracks.meta.angles == ((2, 360.0),)


def test_tracks_follow_from_the_seed(tracks: Trajectories) -> None:
    assert streets.make().equals(tracks)
    assert streets.make(3).fingerprint() == tracks[:3].fingerprint(), "a track depends on its number, not on others"
    assert not np.array_equal(streets.make(1, seed=1).observations[:30], tracks.observations[:30])


@pytest.mark.parametrize("seed", [0, 1])
def test_every_row_is_on_a_street_and_every_street_is_driven(network: Streets, seed: int) -> None:
    data = streets.make(seed=seed)
    assert network.on_street(data.positions).mean() > 0.999
    assert network.coverage(data.positions).min() > 0.95
    lengths = np.array([street.length for street in network.streets])
    for track in data.episodes():
        assert network.coverage(track.positions) @ lengths < 0.4 * lengths.sum(), "one file covers too much"


def test_times_are_irregular_with_repeats_and_gaps(tracks: Trajectories) -> None:
    assert tracks.times is not None
    starts = tracks.window_starts(2)
    intervals = tracks.times[starts + 1] - tracks.times[starts]
    assert np.median(intervals) == pytest.approx(1, abs=0.02)
    assert intervals.min() == 0
    assert 0.003 < (intervals == 0).mean() < 0.02
    assert 0.002 < (intervals > 7).mean() < 0.01
    again = starts[intervals == 0]
    assert np.array_equal(tracks.observations[again], tracks.observations[again + 1]), "a repeat repeats its row"
    regular = streets.make(irregular=False)
    assert regular.times is not None
    assert np.allclose(np.diff(regular.times)[regular.window_starts(2)], 1)


def test_vehicles_keep_to_their_limits() -> None:
    data = streets.make(irregular=False)
    starts = data.window_starts(2)
    speed = data.observations[:, 3]
    assert speed.min() >= 0
    assert np.quantile(speed, 0.999) < 9
    assert np.abs(speed[starts + 1] - speed[starts]).max() < 1.5 + 5 * 0.2, "acceleration and noise"
    steps = np.linalg.norm(data.positions[starts + 1] - data.positions[starts], axis=1)
    assert np.abs(steps - (speed[starts] + speed[starts + 1]) / 2).mean() < 0.6
    turning = np.abs((data.observations[starts + 1, 2] - data.observations[starts, 2] + 180) % 360 - 180) > 25
    assert speed[starts][turning].mean() < 0.7 * speed[starts][~turning].mean(), "slower in turns"


def test_heading_is_the_direction_of_motion() -> None:
    data = streets.make(irregular=False)
    heading = np.radians(data.observations[:, 2])
    starts = data.window_starts(3)
    moved = data.positions[starts + 2] - data.positions[starts]
    straight = np.linalg.norm(moved, axis=1) > 8
    towards = np.arctan2(moved[:, 0], moved[:, 1])
    off = np.abs((towards - heading[starts + 1] + np.pi) % (2 * np.pi) - np.pi)[straight]
    assert np.median(off) < np.radians(5)
    assert np.quantile(off, 0.99) < np.radians(25)
    assert data.observations[:, 2].min() >= 0
    assert data.observations[:, 2].max() < 360
    jumps = np.abs(np.diff(data.observations[:, 2]))[data.window_starts(2)]
    assert (jumps > 300).sum() > 5, "headings that pass through north wrap around"


# ---------------------------------------------------------------------------------------------------------------- files


def test_files_hold_the_same_rows_and_say_nothing_more(tmp_path: Path) -> None:
    folder = tmp_path / "tracks"
    folder.mkdir()
    written = streets.write_csv(folder, files=4, seed=3)
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"track_{number:03d}.csv" for number in range(4)]
    assert files[0].read_text().splitlines()[0] == "time,x,y,heading,speed"
    read, kept = formats.read(folder, choices=Choices(gap=np.inf)), fresh(written)
    assert 0 < (~kept).sum() < 0.05 * written.rows  # some receivers send a row twice
    assert np.array_equal(read.observations, written.observations[kept])
    assert np.array_equal(read.lengths, np.add.reduceat(kept, written.offsets[:-1], dtype=int))
    assert written.times is not None
    assert read.times is not None
    assert np.array_equal(read.times, written.times[kept])
    assert read.meta.dataset is None
    assert [step["origin"] for step in read.meta.provenance] == ["read from tables"]
    assert [read.meta.columns[column] for column, _ in read.meta.angles] == ["heading"]
    split = formats.read(folder)
    assert len(split) > len(read)
    steps = split.window_starts(2)
    assert np.linalg.norm(split.positions[steps + 1] - split.positions[steps], axis=1).max() < 50
    assert "at gaps in time" in split.meta.provenance[0]["split"]


def fresh(data: Trajectories) -> Array:
    """Rows whose time is not that of the row before (N,): the others are dropped when a table is read."""
    kept = np.concatenate([[True], np.diff(data.times) != 0])
    kept[data.offsets[:-1]] = True
    return kept


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("mine")
    with pytest.raises(BadInput, match="will not be replaced"):
        streets.write_csv(tmp_path, files=1)
    with pytest.raises(BadInput, match="will not be replaced"):
        streets.write_csv(tmp_path / "own.txt", files=1)
    with pytest.raises(BadInput, match="at least one file"):
        streets.make(0)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "tracks", str(tmp_path / "tracks"), "--files", "2", "--seed", "5"]
    assert main(words) == 0
    assert "2 episodes" in capsys.readouterr().out
    made = streets.make(2, 5)
    assert np.array_equal(formats.read(tmp_path / "tracks").observations, made.observations[fresh(made)])
    assert main(words) == 2
