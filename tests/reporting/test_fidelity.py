"""Measures that can fail, on data that was spoiled by a known amount: support, walls, coverage, motion, lineage."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scots.core.config import Seeds
from scots.data.trajectories import Array, Meta, Trajectories, offsets_from_lengths
from scots.datasets.collect import MazeWalker
from scots.datasets.specs import SPECS
from scots.envs.maze import parse_maze
from scots.reporting.dynamics import measure_dynamics
from scots.reporting.fidelity import Compared, measure_motion, measure_on_data
from scots.reporting.lineage import column_groups, generated_at, kept_steps, measure_kept, one_step_squares, places_of
from scots.reporting.metrics import Cells, maze_cells, measure_clearance, measure_equal_coverage

ELBOW = parse_maze(("#####", "#...#", "###.#", "###.#", "#####"), "elbow")
"""Free cells (1,1) (1,2) (1,3) (2,3) (3,3): centres (0,0) (4,0) (8,0) (8,4) (8,8)."""


def lanes(count: int = 20, length: int = 50, columns: int = 2, seed: int = 0) -> Trajectories:
    """Episodes along x in steps of 1, a little beside each other; all columns but the first two are noise."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(0, 0.1, (count, length, columns))
    rows[:, :, 0] = np.arange(length) + rng.random((count, 1))
    return of_rows(rows)


def of_rows(rows: Array, **fields: object) -> Trajectories:
    """Episodes (E, T, O) as a dataset."""
    offsets = np.arange(len(rows) + 1) * rows.shape[1]
    return Trajectories(rows.reshape(-1, rows.shape[2]), offsets, **{"meta": Meta(position=(0, 1))} | fields)


def stitched(data: Trajectories, rows: list[int], **fields: object) -> Trajectories:
    """One trajectory made of these source rows."""
    source = np.array(rows)
    actions = None if data.actions is None else data.actions[source]
    values = {"observations": data.observations[source], "actions": actions, "meta": data.meta, "source": source}
    return Trajectories(offsets=[0, len(source)], **values | fields)


# ------------------------------------------------------------------------------------------------------------- support


@pytest.mark.parametrize("share", [0.0, 0.25])
@pytest.mark.parametrize("columns", [2, 12])
def test_states_that_were_moved_off_the_data_are_counted(share: float, columns: int):
    data, rng = lanes(columns=columns), np.random.default_rng(1)
    moved = rng.random(data.rows) < share
    observations = data.observations.copy()
    observations[moved, 1] += 5
    aug = stitched(data, list(range(data.rows)), observations=observations)
    found = measure_on_data(data, aug, 10_000, rng)
    assert found.states == data.rows
    assert found.off_positions == pytest.approx(moved.mean())
    assert found.off == pytest.approx(moved.mean())
    assert found.off_generated == (1.0 if share else None)
    assert found.precision == pytest.approx(1 - moved.mean())
    assert found.recorded_off < 0.03


def test_what_is_off_in_another_column_alone_is_off_as_a_state_but_not_by_its_position():
    data = lanes(columns=3)
    observations = data.observations.copy()
    observations[::2, 2] += 50
    found = measure_on_data(data, of_rows(observations[None]), 10_000, np.random.default_rng(0))
    assert (found.off_positions, found.off) == (0, 0.5)


def test_recall_falls_where_places_are_lost():
    data = lanes()
    half = of_rows(data.observations.reshape(20, 50, 2)[:, :25])
    found = measure_on_data(data, half, 10_000, np.random.default_rng(0))
    assert found.off == 0
    assert found.recall == pytest.approx(0.5, abs=0.03)


# --------------------------------------------------------------------------------------------------------------- walls


@given(seed=st.integers(0, 1000))
def test_clearance_is_the_distance_to_the_nearest_block(seed: int):
    positions = np.random.default_rng(seed).uniform(-7, 15, (30, 2))
    expected = []
    for x, y in positions:
        distances = []
        for i, j in np.argwhere(ELBOW.walls):
            centre = ELBOW.centre((int(i), int(j)))
            distances.append(np.hypot(max(abs(x - centre[0]) - 2, 0), max(abs(y - centre[1]) - 2, 0)))
        outside = not (-6 < x < 14 and -6 < y < 14)  # of the whole map: nothing can be there
        expected.append(0 if outside else min(min(distances), ELBOW.unit))
    assert_allclose(ELBOW.clearance(positions), expected, atol=1e-12)


def test_states_nearer_to_walls_than_any_recorded_state():
    data = of_rows(np.stack([np.linspace(0, 8, 100), np.linspace(-1, 1, 100)], axis=1)[None])  # walls at y = -2 and 2
    heights = np.repeat([0.0, 1.0, 1.5, -1.9, 3.0], [50, 30, 10, 6, 4])
    aug = of_rows(np.stack([np.full(100, 2.0), heights], axis=1)[None])
    found = measure_clearance(data, aug, ELBOW)
    assert found.recorded_min == 1
    assert found.augmented_min == 0
    assert found.nearer_than_any == pytest.approx(0.2)
    assert found.nearer_than_low >= found.nearer_than_any


# ------------------------------------------------------------------------------------------------------------ coverage


def test_coverage_at_equal_numbers_counts_recorded_cells_alone():
    centres = np.array([(0, 0), (4, 0), (8, 0), (8, 4)], dtype=float)
    data, aug = (
        of_rows(np.repeat(centres, 200, axis=0)[None]),
        of_rows(np.repeat([(0, 0), (8, 8.0)], 100, axis=0)[None]),
    )
    found = measure_equal_coverage(data, aug, maze_cells(ELBOW, (0, 1)), np.random.default_rng(0))
    assert (found.cells, found.states) == (4, 200)
    assert (found.original, found.augmented) == (1.0, 0.25)  # the second cell was never recorded


def test_more_states_alone_do_not_cover_more():
    cells = Cells(lambda states: states[:, 0].astype(int), np.ones(1000, dtype=bool))
    few = of_rows(np.stack([np.arange(1000), np.zeros(1000)], axis=1)[None])
    many = of_rows(np.repeat(few.observations, 20, axis=0)[None])
    found = measure_equal_coverage(few, many, cells, np.random.default_rng(0))
    assert found.original == 1
    assert found.augmented == pytest.approx(1 - np.exp(-1), abs=0.03)  # a thousand draws out of a thousand cells


# -------------------------------------------------------------------------------------------------------------- motion


def test_motion_at_twice_the_speed():
    data = lanes()
    fast = of_rows(data.observations.reshape(20, 50, 2)[:, ::2])
    found = measure_motion(data, fast, 5000, np.random.default_rng(0))
    assert found.step_length.recorded.median == pytest.approx(1, abs=0.05)
    assert found.step_length.augmented.median == pytest.approx(2, abs=0.05)
    assert found.step_length.ks > 0.99
    assert found.step_length.wasserstein == pytest.approx(1, abs=0.05)
    assert found.speed is None
    same = measure_motion(data, data, 5000, np.random.default_rng(0)).step_length
    assert (same.ks, same.wasserstein) == (0, 0)


def test_speed_is_by_time_or_by_columns_of_velocity():
    data = lanes()
    seconds = np.tile(np.arange(50) * 0.5, 20)
    by_time = of_rows(data.observations.reshape(20, 50, 2), times=seconds)
    assert measure_motion(by_time, by_time, 100, np.random.default_rng(0)).speed.recorded.median == pytest.approx(
        2, 0.1
    )
    rows = np.concatenate([data.observations, np.full((1000, 2), (3.0, 4.0))], axis=1).reshape(20, 50, 4)
    by_column = of_rows(rows, meta=Meta(columns=("x", "y", "vx", "vy"), position=(0, 1)))
    assert measure_motion(by_column, by_column, 100, np.random.default_rng(0)).speed.recorded.median == 5
    single = of_rows(rows[:, :1])
    assert measure_motion(by_column, single, 100, np.random.default_rng(0)) is None


def test_ks_and_wasserstein_of_two_points():
    found = Compared.of(np.array([1.0, 1.0]), np.array([1.0, 3.0]))
    assert (found.ks, found.wasserstein) == (0.5, 1.0)
    assert Compared.of(np.zeros(2), np.ones(2)).wasserstein is None


# ------------------------------------------------------------------------------------------------------------- lineage


def test_columns_are_grouped_by_what_meta_and_names_tell():
    ant = column_groups(SPECS["antmaze-medium-stitch-v0"].collection.meta(), 29)
    assert {group: len(columns) for group, columns in ant.items()} == {
        "position": 2,
        "orientation": 4,
        "joint angles": 8,
        "velocities": 14,
        "other columns": 1,
    }
    assert sorted(column for columns in ant.values() for column in columns) == list(range(29))
    track = Meta(columns=("x", "y", "heading", "speed"), position=(0, 1), angles=((2, 360.0),))
    assert column_groups(track, 4) == {"position": [0, 1], "angles": [2], "velocities": [3]}
    assert column_groups(Meta(), 2) == {"other columns": [0, 1]}


def test_one_step_squares_of_an_angle_go_the_short_way():
    rows = np.stack([np.arange(50.0), np.arange(50.0) * 10 % 360], axis=1)[None]
    data = of_rows(rows, meta=Meta(position=(0,), angles=((1, 360.0),)))
    assert one_step_squares(data, {"x": [0], "angle": [1]}) == {"x": pytest.approx(1), "angle": pytest.approx(100)}


@pytest.fixture
def joined() -> tuple[Trajectories, Trajectories]:
    """Segments of 5 states (4 steps each): the walk jumps, goes on in its episode, and jumps again."""
    rng = np.random.default_rng(0)
    data = lanes(count=3, length=30)
    data = of_rows(data.observations.reshape(3, 30, 2), actions=rng.normal(size=(90, 1)))
    rows = [0, 1, 2, 3, 4, 35, 36, 37, 38, 39, 40, 41, 42, 63, 64, 65, 66]
    return data, stitched(data, rows)


def test_places_count_from_the_join_on(joined: tuple[Trajectories, Trajectories]):
    _, aug = joined
    rows = aug.window_starts(2)
    assert places_of(aug, rows, 5).tolist() == [-1] * 4 + [0, 1, 2, 3] * 3
    assert places_of(aug, rows, None) is None
    assert places_of(aug, rows, 6) is None  # its joins would be elsewhere


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "compared with the source"])
def test_what_was_kept_is_told_with_and_without_marks(joined: tuple[Trajectories, Trajectories], marked: bool):
    data, aug = joined
    made = np.zeros(aug.rows, dtype=bool)
    made[[5, 6, 13]] = True
    observations, actions = aug.observations.copy(), aug.actions.copy()
    observations[made, 1] += 0.01
    actions[[4, 5, 6, 12, 13]] += 1  # labelled anew
    actions[9] += 1  # a recorded transition that lost its action
    aug = stitched(
        data, aug.source, observations=observations, actions=actions, **({"generated": made} if marked else {})
    )
    assert_array_equal(generated_at(data, aug, np.arange(aug.rows)), made)
    kept = [row not in (4, 5, 6, 12, 13) for row in range(16)]
    assert kept_steps(data, aug, aug.window_starts(2)).tolist() == kept
    found = measure_kept(data, aug, 5)
    assert found.states == pytest.approx(14 / 17)
    assert found.actions == pytest.approx(10 / 16)
    assert found.own_continuation == pytest.approx(1 / 3)
    assert measure_kept(data, aug, None).own_continuation is None


def test_joins_are_told_by_the_draw_that_repaired_them(joined: tuple[Trajectories, Trajectories]):
    data, aug = joined  # joins before the states 5 and 13; at 9 it went on in the same episode
    draws = np.zeros(aug.rows, dtype=np.uint8)
    draws[[4, 5, 6]] = 3
    found = measure_kept(data, stitched(data, aug.source, generated=draws), 5).repairs
    assert found == {"first draw": 0, "drawn again": 0.5, "left as recorded": 0.5}
    draws[[12, 13]] = 1
    found = measure_kept(data, stitched(data, aug.source, generated=draws), 5).repairs
    assert found == {"first draw": 0.5, "drawn again": 0.5, "left as recorded": 0}
    assert measure_kept(data, aug, 5).repairs == {}


def test_gaps_at_joins_are_in_recorded_steps():
    steps = np.arange(20.0)
    rows = np.stack([np.stack([steps + 3, np.zeros(20), 7 * steps], 1), np.stack([steps, np.zeros(20), steps], 1)])
    data = of_rows(rows, meta=Meta(columns=("x", "y", "vx"), position=(0, 1)))
    aug = stitched(data, [*range(20, 25), *range(1, 6)])  # from x = 4 to x = 4, and vx from 4 to 7
    found = measure_kept(data, aug, None)
    assert found.gap == {"position": pytest.approx(0), "velocities": pytest.approx(3 / 5)}  # rms of steps 7 and 1 is 5
    moved = aug.observations.copy()
    moved[5:, 0] += 2
    assert measure_kept(data, stitched(data, aug.source, observations=moved), None).refined_gap["position"] == 2


def test_without_lineage_nothing_is_known_of_what_was_kept():
    data = lanes()
    assert measure_kept(data, data, 5) is None
    assert generated_at(data, data, np.arange(3)) is None
    assert not kept_steps(data, data, np.arange(3)).any()


# ------------------------------------------------------------------------------------------------------------ dynamics


@pytest.fixture(scope="module")
def ant() -> Trajectories:
    """Three short episodes of an ant in the real simulator."""
    collection = SPECS["antmaze-medium-stitch-v0"].collection.replace_at("states", 40)
    walker = MazeWalker(collection, collection.meta())
    episodes = [walker.episode(Seeds(0).stream("episode", n)).arrays for n in range(3)]
    arrays = {name: np.concatenate([e[name] for e in episodes]) for name in ("observations", "actions")}
    return Trajectories(**arrays, offsets=offsets_from_lengths([40] * 3), meta=collection.meta())


@pytest.mark.mujoco
def test_dynamic_mse_by_kind_group_and_place(ant: Trajectories):
    """Each third state after a join is generated, moved by 0.1 in x: steps err at its places, in position alone."""
    source = np.array([*range(0, 11), *range(61, 71), *range(15, 25), *range(85, 95)])
    made, places = np.zeros(41, dtype=bool), np.arange(40) % 10
    made[[13, 23, 33]] = True
    observations = ant.observations[source].copy()
    observations[made, 0] += 0.1
    aug = stitched(ant, source, observations=observations, generated=made)
    found = measure_dynamics(ant, aug, None, (100, 5), np.random.default_rng(0), segment=11)
    assert found.shares == {
        "refined_joins": pytest.approx(3 / 40),
        "kept": pytest.approx(31 / 40),
        "generated": pytest.approx(6 / 40),  # to the generated states and from them
    }
    assert found.kept.quantiles.p99 < 1e-8
    assert found.generated.quantiles.p10 == pytest.approx(0.01, rel=0.05)
    units = one_step_squares(ant, column_groups(ant.meta, 29))
    assert found.one_step == pytest.approx(sum(units.values()))
    errors = found.groups["generated"]
    assert errors["position"] == pytest.approx(0.01 / units["position"], rel=0.05)
    assert max(error for group, error in errors.items() if group != "position") < 1e-4
    assert len(found.places) == places.max() + 1
    assert [place for place in range(10) if found.places[place] > 1e-6] == [0, 2, 3]
    weighted = sum(share * found.means[kind] for kind, share in found.shares.items())
    assert found.whole == pytest.approx(weighted)
    medians = {kind: getattr(found, kind).quantiles.median for kind in found.shares}
    assert found.typical == pytest.approx(sum(share * medians[kind] for kind, share in found.shares.items()))


def test_steps_are_compared_with_those_they_were_made_from():
    """Half of the data stands still, and a stitcher that takes the other half changes nothing."""
    positions = np.concatenate([np.zeros((100, 2)), np.arange(100)[:, None] * [[0.5, 0.0]]]).astype(np.float32)
    data = Trajectories(positions, [0, 100, 200], meta=Meta(position=(0, 1)))
    rows = np.arange(100, 200)
    moving = Trajectories(positions[rows], [0, 100], meta=Meta(position=(0, 1)), source=rows)
    assert measure_motion(data, moving, 1000, np.random.default_rng(0)).step_length.wasserstein == 0
    unknown = dataclasses.replace(moving, source=None)
    assert measure_motion(data, unknown, 1000, np.random.default_rng(0)).step_length.ks > 0.4
