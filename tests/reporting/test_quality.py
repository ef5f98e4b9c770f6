"""Quality numbers on data whose answers are known: hand-made tracks, a corridor, genuine simulator steps."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from scots.augmenters import AUGMENTERS
from scots.augmenters.embedding import RawState, TemporalDistance, TemporalDistanceConfig
from scots.augmenters.settings import ScotsConfig
from scots.core.config import Seeds
from scots.core.errors import BadInput
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data.trajectories import Meta, Normalizer, Trajectories, concat, offsets_from_lengths
from scots.datasets.collect import MazeWalker
from scots.datasets.specs import SPECS
from scots.envs.geodesic import Geodesic
from scots.envs.maze import parse_maze
from scots.reporting.augmentation import augment_command
from scots.reporting.calibration import measure_calibration
from scots.reporting.dynamics import measure_dynamics, simulate, simulator_of
from scots.reporting.lineage import join_rows, measure_joins, measure_repeats
from scots.reporting.metrics import (
    Distribution,
    Quantiles,
    grid_cells,
    latent_cells,
    maze_cells,
    measure_reach,
    measure_visits,
    measure_walls,
    sample_trajectories,
)
from scots.reporting.plots import report_figures
from scots.reporting.quality import Quality, measure_quality
from scots.reporting.quality_document import quality_row

ELBOW = parse_maze(("#####", "#...#", "###.#", "###.#", "#####"), "elbow")
"""Free cells (1,1) (1,2) (1,3) (2,3) (3,3): centres (0,0) (4,0) (8,0) (8,4) (8,8)."""


def tracks(*positions: list[tuple[float, float]], **fields) -> Trajectories:
    """Hand-made trajectories of positions."""
    offsets = offsets_from_lengths([len(track) for track in positions])
    meta = Meta(position=(0, 1))
    return Trajectories(
        np.concatenate([np.array(t, dtype=float) for t in positions]), offsets, **{"meta": meta} | fields
    )


class Euclidean:
    """An encoder's distance, without its `encode`."""

    def distance(self, start, end):
        return np.linalg.norm(np.asarray(end) - np.asarray(start), axis=-1)


def transitions(data: Trajectories, rows: Sequence[int], **changes) -> Trajectories:
    """Recorded transitions, each a trajectory of two states that does not say where it came from."""
    both = np.stack([np.asarray(rows), np.asarray(rows) + 1], axis=1).ravel()
    actions = None if data.actions is None else data.actions[both]
    offsets = np.arange(len(rows) + 1) * 2
    return Trajectories(
        **{"observations": data.observations[both], "actions": actions, "meta": data.meta} | changes, offsets=offsets
    )


def stitched(data: Trajectories, *rows: list[int], **fields) -> Trajectories:
    """Trajectories made of these source rows, not refined."""
    source = np.concatenate([np.array(run) for run in rows])
    actions = None if data.actions is None else data.actions[source]
    offsets = offsets_from_lengths([len(run) for run in rows])
    values = {"observations": data.observations[source], "actions": actions, "meta": data.meta} | fields
    return Trajectories(offsets=offsets, source=source, **values)


# ------------------------------------------------------------------------------------------------------------- visits


def test_cells_visited_and_spanned():
    data = tracks([(0, 0), (1, 0), (4, 0)], [(8, 0), (8, 4), (8, 5), (8, 4)])
    found = measure_visits(data, maze_cells(ELBOW, (0, 1)))
    assert (found.visited, found.cells, found.share) == (4, 5, 0.8)
    shares = np.array([2, 1, 1, 3]) / 7
    assert found.entropy == pytest.approx(-(shares * np.log(shares)).sum())
    assert (found.per_trajectory.count, found.per_trajectory.median) == (2, 2)


def test_states_in_walls_visit_nothing_and_fine_cells_divide_free_ones():
    data = tracks([(0, 4), (0, 0), (0.4, 0.4), (0.6, 0.6)])
    assert measure_visits(data, maze_cells(ELBOW, (0, 1))).visited == 1
    fine = measure_visits(data, maze_cells(ELBOW, (0, 1), parts=8))
    assert (fine.visited, fine.cells) == (2, 5 * 64)


def test_without_a_maze_the_grid_covers_the_extent_of_the_original():
    data = tracks([(0, 0), (16, 8)])
    grid = grid_cells(data, (0, 1))
    assert measure_visits(data, grid).cells == 16 * 8
    outside = tracks([(0.5, 0.5), (1.5, 0.5), (99, 99), (15.5, 7.5)])
    assert measure_visits(outside, grid).visited == 3
    still = tracks([(3, 3), (3, 3)])
    assert measure_visits(still, grid_cells(still, (0, 1))).entropy == 0


def test_latent_cells_are_those_of_the_encoder():
    class Sign:
        def encode(self, observations):
            return np.sign(observations[:, :1]).astype(np.float32) * 50

    data = tracks([(-1, 0), (-2, 0)], [(1, 0), (-3, 0)])
    found = measure_visits(data, latent_cells(data, Sign(), 0))
    assert (found.visited, found.per_trajectory.p90) == (2, pytest.approx(1.9))


def test_reach_is_the_path_to_the_farthest_cell_visited():
    there_and_back = [(0, 0), (4, 0), (8, 0), (8, 4), (8, 0), (0, 0)]
    assert measure_reach(tracks(there_and_back), ELBOW).median == 3


def test_a_line_through_a_wall_is_noticed_though_both_ends_are_free():
    corner = tracks([(6.5, 0), (6.5, 1.5), (8, 3)])
    assert measure_walls(corner, ELBOW).steps == 0
    cut = tracks([(3, 1), (8, 6)], [(0, 0), (1, 0)])
    found = measure_walls(cut, ELBOW)
    assert (found.states, found.trajectories, found.steps) == (0, 0, 0.5)
    inside = measure_walls(tracks([(0, 0), (0, 3), (0, 0)], [(0, 0)]), ELBOW)
    assert (inside.states, inside.trajectories, inside.steps) == (0.25, 0.5, 1.0)


def test_a_sample_is_whole_trajectories_by_seed():
    data = concat([tracks([(n, n)] * 10) for n in range(20)])
    drawn = sample_trajectories(data, 55, np.random.default_rng(0))
    assert drawn.lengths.tolist() == [10] * 5
    assert drawn.equals(sample_trajectories(data, 55, np.random.default_rng(0)))
    assert sample_trajectories(data, 200, np.random.default_rng(0)) is data
    assert len(sample_trajectories(data, 3, np.random.default_rng(0))) == 1


def test_distribution_bins_are_logarithmic():
    found = Distribution.of(np.array([0.0, 0.011, 0.011, 11.0]))
    assert (sum(found.counts), found.counts[0], found.counts[-1]) == (3, 2, 1)
    assert found.edges[0] <= 0.011 < found.edges[1]
    assert found.edges[-2] <= 11 < found.edges[-1]
    assert Distribution.of(np.zeros(4)).counts == ()
    assert Quantiles.of(np.arange(101)).p10 == 10


# -------------------------------------------------------------------------------------------------------------- joins


def line() -> Trajectories:
    """Three episodes of 10 states that go 1 along x per step, from heights 0, 2 and 50."""
    return tracks(*([(x, y) for x in range(10)] for y in (0, 2, 50)))


def test_joins_are_where_the_source_jumps_inside_an_episode():
    aug = stitched(line(), [0, 1, 2, 12, 13], [21, 22, 23], [3, 4, 13])
    at_joins, inside = join_rows(aug)
    assert at_joins.tolist() == [2, 9]
    assert inside.tolist() == [0, 1, 3, 5, 6, 8]


def test_join_steps_before_and_after_refinement():
    data = line()
    aug = stitched(data, [0, 1, 2, 12, 13, 14])  # the join goes from (2, 0) to (2, 2)
    refined = aug.observations.copy()
    refined[2:, 1] = [0.5, 1, 1.5, 2]
    found = measure_joins(
        data, stitched(data, aug.source, observations=refined), (0, 1), Normalizer.fit(data.observations)
    )
    assert found.count == 1
    assert found.position.unrefined_joins.quantiles.median == 2
    assert found.position.refined_joins.quantiles.median == pytest.approx(0.5)
    assert found.position.recorded.quantiles.median == 1
    assert found.position.ratio == pytest.approx(0.5 / np.median([1, np.hypot(1, 0.5), np.hypot(1, 0.5)]), rel=0.05)
    x, y = data.observations.std(axis=0)
    assert found.state.unrefined_joins.quantiles.median == pytest.approx(2 / y)
    assert found.state.recorded.quantiles.median == pytest.approx(1 / x)
    assert measure_joins(data, stitched(data, [0, 1, 2]), (0, 1), Normalizer.fit(data.observations)) is None


def test_repeated_trajectories_and_segments():
    aug = stitched(line(), [0, 1, 2, 12, 13], [0, 1, 2, 12, 13], [0, 1, 2, 22, 23], [5, 6, 12, 13])
    found = measure_repeats(aug)
    assert found.trajectories == 0.25
    assert found.segments == 4  # 0-2, 12-13, 22-23, 5-6
    assert found.reused == 0.5


# ----------------------------------------------------------------------------------------------------------- geodesic


def test_geodesic_round_a_corner():
    metric = Geodesic(ELBOW)
    along = metric.distances(np.array([[0.25, 0.25]]), np.array([[0.25, 0.25], [7.25, 0.25], [7.25, 1.25]]))[0]
    assert along == pytest.approx([0, 7, 6 + np.sqrt(2)])
    # From (5.25, 0.25) to (8.25, 4.25): three diagonal metres and one down. No wall is in the way of the order
    # "right, diagonally, down", and the inner corner of the elbow is at (6, 2).
    assert metric.distances(np.array([[5.25, 0.25]]), np.array([[8.25, 4.25]]))[0, 0] == pytest.approx(3 * 2**0.5 + 1)
    # From (4.25, 1.75) to (6.25, 3.75) the straight diagonal is in the wall: right to the corner, then down.
    # Cutting the corner would give 2 sqrt 2; the lattice passes it at (6.25, 1.75).
    assert metric.distances(np.array([[4.25, 1.75]]), np.array([[6.25, 3.75]]))[0, 0] == pytest.approx(4)


def test_positions_in_walls_go_to_the_nearest_free_point_and_rooms_may_be_apart():
    metric = Geodesic(ELBOW)
    assert metric.distances(np.array([[0.25, 2.5]]), np.array([[0.25, 1.75]]))[0, 0] == 0
    rooms = parse_maze(("#####", "#.#.#", "#####"), "rooms")
    assert Geodesic(rooms).distances(np.array([[0, 0]]), np.array([[8, 0]]))[0, 0] == np.inf


def test_calibration_of_an_encoder_that_knows_the_maze():
    rng = np.random.default_rng(0)
    corridor = np.stack([rng.uniform(-2, 10, 400), np.zeros(400)], axis=1)
    down = np.stack([np.full(200, 8.0), rng.uniform(2, 10, 200)], axis=1)
    data = tracks(corridor, down)

    class Along(Euclidean):
        """How far along the middle of the corridor a state is."""

        def encode(self, observations):
            return (observations[:, :1] + observations[:, 1:]).astype(np.float32)

    class Nothing(Euclidean):
        def encode(self, observations):
            return np.random.default_rng(1).normal(size=(len(observations), 3))

    knowing = measure_calibration(data, Along(), ELBOW, (60, 80), rng)
    assert knowing.pairs == 4800
    assert knowing.near > 0.97
    assert knowing.all > 0.97
    assert np.all(np.diff(knowing.mean) > 0)
    assert np.all(np.array(knowing.low) <= knowing.mean)
    assert abs(measure_calibration(data, Nothing(), ELBOW, (60, 80), rng).all) < 0.1


def test_calibration_measures_by_the_distance_of_the_encoder():
    """Even if it is directed: from the first state of a pair to the second, never back."""

    class OneWay:
        def encode(self, observations):
            return observations[:, :1]

        def distance(self, start, end):
            return np.where(end >= start, end - start, 100.0)[..., 0]

    data = tracks([(0, 0)] * 60, [(4, 0)] * 60)
    there = measure_calibration(data, OneWay(), ELBOW, (120, 120), np.random.default_rng(0))
    assert there.mean == (0.0, pytest.approx((4 + 100) / 2))
    assert (there.low[1], there.high[1]) == (4, 100)


@pytest.mark.parametrize("kind", ["temporal", "raw"])
def test_encoders_measure_distances_with_broadcasting(kind: str):
    data = line()
    encoder = RawState(data) if kind == "raw" else TemporalDistance(TemporalDistanceConfig(), {"observation": 2})
    latents = encoder.encode(data.observations)
    found = encoder.distance(latents[:5, None], latents[None])
    assert found.shape == (5, 30)
    assert found[2, 7] == pytest.approx(np.linalg.norm(latents[2] - latents[7]), rel=1e-5)
    assert encoder.distance(latents[3], latents[3]) == 0


# ----------------------------------------------------------------------------------------------------------- dynamics


@pytest.fixture(scope="module", params=["pointmaze-medium-stitch-v0", "antmaze-medium-stitch-v0"])
def collected(request: pytest.FixtureRequest) -> Trajectories:
    """Three short episodes from the real simulator."""
    collection = SPECS[request.param].collection.replace_at("states", 40)
    walker = MazeWalker(collection, collection.meta())
    episodes = [walker.episode(Seeds(0).stream("episode", n)).arrays for n in range(3)]
    arrays = {name: np.concatenate([e[name] for e in episodes]) for name in ("observations", "actions")}
    return Trajectories(**arrays, offsets=offsets_from_lengths([40] * 3), meta=collection.meta())


@pytest.mark.mujoco
def test_genuine_steps_obey_the_simulator_and_shuffled_actions_do_not(collected: Trajectories):
    environment, rows = simulator_of(collected), collected.window_starts(2)
    states, following, actions = (
        collected.observations[rows],
        collected.observations[rows + 1],
        collected.actions[rows],
    )
    # an unscaled quaternion is scaled first, and the order of the rows does not matter
    stretched = states.copy()
    for first in collected.meta.quaternions:
        stretched[:, first : first + 4] *= 1.5
    reached = simulate(environment, stretched, actions, collected.meta.quaternions)
    assert np.square(reached - following).sum(axis=1).max() < 1e-8
    backwards = simulate(environment, states[::-1], actions[::-1], collected.meta.quaternions)[::-1]
    np.testing.assert_allclose(backwards, reached, atol=1e-5)
    shuffled = simulate(environment, states, np.roll(actions, 7, axis=0), collected.meta.quaternions)
    assert np.median(np.square(shuffled - following).sum(axis=1)) > 1e-3


@pytest.mark.mujoco
def test_dynamic_mse_tells_joins_from_recorded_steps(collected: Trajectories):
    aug = stitched(collected, [*range(0, 10), *range(60, 70), *range(85, 95)])
    found = measure_dynamics(collected, aug, None, (50, 5), np.random.default_rng(0))
    assert found.unrefined_joins.quantiles.count == 2
    assert found.unrefined_joins.quantiles.median > 0.5
    assert found.refined_joins.quantiles.median == pytest.approx(found.unrefined_joins.quantiles.median)
    assert found.inside.quantiles.median < 1e-8
    assert found.recorded.quantiles.median < 1e-8
    assert found.relabelled is None
    assert (found.generated, found.kept.quantiles.count) == (None, 27)
    assert found.shares == {"refined_joins": pytest.approx(2 / 29), "kept": pytest.approx(27 / 29)}
    assert found.whole == pytest.approx(found.means["refined_joins"] * 2 / 29, rel=1e-3)


# ------------------------------------------------------------------------------------------------------------- report


def test_report_on_tracks_without_environment_actions_or_names(tmp_path: Path):
    rng = np.random.default_rng(0)
    walks = np.cumsum(rng.normal(size=(6, 40, 2)), axis=1)
    data = tracks(*walks, meta=Meta())
    aug = stitched(data, [*range(0, 20), *range(100, 120)], [*range(45, 60), *range(5, 30)])
    found = measure_quality(data, aug)
    assert found.joins.count == 2
    assert (found.dynamics, found.calibration, found.residual) == (None, None, None)
    assert (found.augmented.walls, found.augmented.reach, found.augmented.latent) == (None, None, None)
    assert found.original.cells.visited >= found.augmented.cells.visited
    assert found.on_data.states == aug.rows
    assert Quality.from_json(found.to_json()) == found
    assert measure_quality(data, aug) == found
    summary = repr(found)
    assert summary.splitlines()[0] == f"Augmented unnamed data: {found.verdict.headline}"
    lines = [line for line in summary.split("Steps\n")[1].splitlines() if line.startswith("joins, ")]
    assert [" ".join(line.split()[:3]) for line in lines] == ["joins, not refined"]
    assert "Dynamic MSE" not in summary
    assert "Next" not in summary.splitlines()
    for _ in range(2):
        append_rows(tmp_path / "kept" / "quality.jsonl", [quality_row(found)])
    rows = [json.loads(text) for text in (tmp_path / "kept" / "quality.jsonl").read_text().splitlines()]
    assert len(rows) == 2
    assert rows[0]["dynamic_mse_refined_joins"] is None
    assert rows[0]["augmented_trajectories"] == 2
    assert rows[0]["versions"]["torch"]
    assert rows[0]["commit"] == code_version()
    assert rows[0]["date"] <= now()


def test_the_report_says_what_was_kept_and_how_joins_were_repaired():
    walks = np.cumsum(np.random.default_rng(0).normal(size=(6, 40, 2)), axis=1)
    data, config = tracks(*walks), ScotsConfig().replace_at("stitching.segment", 11)
    meta = AUGMENTERS["scots"].job(data, config, 0, "laptop").meta
    draws = np.zeros(31, dtype=np.uint8)
    draws[[10, 11, 12]] = 1  # around the first join; the second stays as recorded, and then the walk goes on
    rows = [*range(11), *range(50, 60), *range(60, 70)]
    other = [*range(11), *range(50, 60), *range(90, 100)]
    generated = np.concatenate([draws, np.zeros(31, dtype=np.uint8)])
    found = measure_quality(data, stitched(data, rows, other, meta=meta, generated=generated))
    text = " ".join(repr(found).split())
    assert "joins that went on in the same episode 25.0%" in text
    assert "joins by the draw that lay on the data 33.3% first draw, 0.0% drawn again, 66.7% left as recorded" in text
    for measure in ("precision: augmented states", "recall: recorded states", "original fine cells, visited by"):
        assert measure in text
    row = quality_row(found)
    assert row["repairs"] == found.kept.repairs
    assert row["step_length_wasserstein"] == found.motion.step_length.wasserstein


def test_an_encoder_that_is_given_adds_latent_cells():
    class Identity(Euclidean):
        def encode(self, observations):
            return np.asarray(observations)

    data = line()
    found = measure_quality(data, stitched(data, [0, 1, 2, 12, 13]), encoder=Identity())
    assert found.original.latent.visited == found.original.latent.cells == data.rows
    assert found.augmented.latent.visited == 5
    assert "latent cells visited" in repr(found)


@pytest.mark.parametrize("position", [(), (0, 1), (1, 0)])
def test_the_original_is_recognised_by_the_position_columns_it_was_stitched_with(position):
    """However they are given now: a file of one's own names none, `--position` is not asked for again."""
    data, config = line(), ScotsConfig()
    meta = AUGMENTERS["scots"].job(data.with_meta(position=position), config, 3, "laptop").meta
    aug = stitched(data, [0, 1, 2, 12, 13], meta=meta)
    for given in ((), (0, 1), (1, 0)):
        found = measure_quality(data.with_meta(position=given), aug).augmentation
        assert (found.augmenter, found.config, found.seed) == ("scots", config.to_dict(), 3)


def test_data_without_lineage_is_measured_by_what_needs_none():
    """Such as single transitions from a generative model: nothing is joined, and nothing tells what is repeated."""
    data = line()
    step = {"origin": "generated elsewhere", "config": {"steps": 3}, "seed": 0, "source": data.fingerprint()}
    aug = transitions(data, range(9)).with_meta(provenance=(step,))
    found = measure_quality(data, aug)
    assert (found.joins, found.repeats, found.dynamics) == (None, None, None)
    assert (found.augmented.trajectories, found.augmented.states) == (9, 18)
    assert found.on_data.off == 0  # recorded transitions
    assert Quality.from_json(found.to_json()) == found
    row = quality_row(found)
    assert (row["join_ratio_position"], row["repeated_trajectories"]) == (None, None)
    assert "generated elsewhere" in repr(found)
    assert "repeated" not in repr(found)


def test_data_of_another_augmenter_is_measured_and_named():
    """One that this installation does not have: its settings are shown as it wrote them, its models are not sought."""
    data = line()
    step = {
        "origin": "augmented here",
        "augmenter": "mixup",
        "profile": "laptop",
        "seed": 4,
        "source": data.fingerprint(),
    }
    step |= {"changes": {"share": 0.25}, "config": {"share": 0.25, "copies": 2}, "versions": {}}
    aug = transitions(data, range(9)).with_meta(provenance=(step,))
    found = measure_quality(data, aug)
    assert found.augmentation.label == "mixup, share=0.25"
    assert (found.joins, found.residual, found.calibration, found.augmented.latent) == (None, None, None, None)
    row = quality_row(found)
    assert (row["augmenter"], row["config"]) == ("mixup", {"share": 0.25, "copies": 2})
    assert augment_command("line", found.augmentation, "aug.npz") is None
    assert set(report_figures(data, aug, found)) == {"trajectories", "coverage"}


@pytest.mark.mujoco
def test_steps_without_lineage_are_simulated_too(collected: Trajectories):
    rows = np.arange(5, 25)
    genuine = measure_dynamics(collected, transitions(collected, rows), None, (50, 5), np.random.default_rng(0))
    assert (genuine.unrefined_joins, genuine.refined_joins) == (None, None)
    assert genuine.inside.quantiles.count == 20
    assert genuine.inside.quantiles.median < 1e-8
    shuffled = transitions(collected, rows, actions=np.repeat(collected.actions[rows + 7], 2, axis=0))
    assert measure_dynamics(collected, shuffled, None, (50, 5), np.random.default_rng(0)).inside.quantiles.median > 1e-3


def test_only_what_cannot_be_compared_is_refused():
    data = line()
    wide = Trajectories(np.zeros((4, 3)), [0, 4])
    with pytest.raises(BadInput, match="the original has 2 columns of observations, the augmented data 3"):
        measure_quality(data, wide)
    with pytest.raises(BadInput, match="do not fit"):
        measure_quality(data[:1], stitched(data, [0, 1, 22, 23]))
    step = {"origin": "stitched here", "config": {}, "seed": 0, "source": "0123"}
    other = stitched(data, [0, 1, 12]).with_meta(provenance=(step,))
    with pytest.raises(BadInput, match="fingerprint 0123"):
        measure_quality(data, other)
