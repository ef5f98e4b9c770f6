"""Lengths of segments, trajectories and plans that are derived from data, on shapes whose longest path is known."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.augmenters import AUGMENTERS
from scots.cli import main
from scots.data.support import Support
from scots.data.trajectories import Meta, Trajectories, offsets_from_lengths
from scots.datasets import toy
from scots.datasets.horizons import augmented_states, longest_path, path_steps, plan_waypoints, segment_states
from scots.datasets.specs import SPECS, custom_collection, segment_of, spec_of, spec_of_meta
from scots.envs.maze import parse_maze
from scots.planners import PLANNERS

SPIRAL = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "own_maze.py"))["SPIRAL"]


def drives(path: np.ndarray, episodes: int, states: int, pace: float) -> Trajectories:
    """Episodes that drive along a polyline at an even pace, each from its own place on it."""
    lengths = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    begins = np.linspace(0, lengths[-1] - (states - 1) * pace, episodes)
    places = begins[:, None] + pace * np.arange(states)
    positions = np.stack([np.interp(places, lengths, column) for column in path.T], axis=-1)
    return Trajectories(positions.reshape(-1, 2), offsets_from_lengths([states] * episodes), meta=Meta(position=(0, 1)))


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([201] * 10, 26),
        ([51] * 10, 26),
        ([21] * 10, 11),
        ([4] * 10, 3),
        ([1], 3),
        ([11] * 40 + [401] * 40, 26),  # nearly all rows lie in the long ones
    ],
)
def test_two_segments_fit_in_the_episodes_of_most_rows(lengths: list[int], expected: int):
    assert segment_states(np.array(lengths)) == expected


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30))
def test_a_segment_is_never_longer_than_the_papers(lengths: list[int]):
    assert 3 <= segment_states(np.array(lengths)) <= 26


def test_the_longest_path_goes_around_corners():
    corner = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 60.0]])
    data = drives(corner, episodes=40, states=30, pace=1.0)
    assert longest_path(Support.of(data)) == pytest.approx(160, rel=0.05)
    assert path_steps(data, 26) == pytest.approx(160, rel=0.1)
    around = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 20.0], [0.0, 20.0]])  # ends near where it began
    assert path_steps(drives(around, 40, 30, pace=2.0), 26) == pytest.approx(110, rel=0.1)


def test_what_cannot_be_reached_from_most_places_does_not_count():
    parts = [drives(np.array([[0.0, y], [100.0, y]]), 20, 30, 1.0) for y in (0.0, 50.0)]
    both = np.concatenate([part.observations for part in parts])
    data = Trajectories(both, offsets_from_lengths([30] * 40), meta=Meta(position=(0, 1)))
    assert longest_path(Support.of(data)) == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize(("steps", "expected"), [(10, 5), (190, 11), (480, 26), (950, 51), (1e6, 81)])
def test_plans_reach_a_quarter_farther_than_the_longest_path(steps: float, expected: int):
    assert plan_waypoints(steps, 25) == expected


def test_own_data_gets_trajectories_and_plans_that_reach_across_it():
    corner = np.array([[0.0, 0.0], [400.0, 0.0], [400.0, 300.0]])
    data = drives(corner, episodes=60, states=41, pace=1.0)
    spec = spec_of(data)
    assert (spec.segment, spec.path_steps) == (21, pytest.approx(700, rel=0.05))
    assert (spec.waypoints - 1) * (spec.segment - 1) >= 1.2 * 700
    assert spec.stitches == 2 * (spec.waypoints - 1)
    assert "steps from one end of the data to the other" in spec.measured()
    config = AUGMENTERS["scots"].configure(spec, "laptop")
    planner = PLANNERS["hd"].configure(spec, config.stitching.states, "laptop")
    assert (config.stitching.segment, planner.stride) == (21, 20)
    assert config.stitching.states > planner.horizon > 700


@pytest.mark.parametrize(("rows", "states"), [(10, 100_000), (11_530, 230_600), (10**6, 5_000_000)])
def test_twenty_states_are_stitched_for_every_recorded_one_but_no_more_than_published(rows: int, states: int):
    assert augmented_states(rows) == states


def test_little_own_data_makes_fewer_trajectories_and_published_data_as_many_as_before():
    own = spec_of(replace(toy.make(300), meta=Meta(position=(0, 1))))
    assert own.augmented_states == 20 * 300 * 33
    config = AUGMENTERS["scots"].configure(own, "laptop")
    assert config.trajectories * (config.stitching.states - 1) == pytest.approx(198_000, rel=0.01)
    maze = custom_collection("pointmaze-spiral-stitch-v0").meta(parse_maze(SPIRAL, "spiral"))
    assert spec_of(replace(toy.make(300), meta=maze)).augmented_states == own.augmented_states
    giant = AUGMENTERS["scots"].configure(SPECS["pointmaze-giant-stitch-v0"], "laptop")
    assert giant.trajectories == 2500


def test_warnings_are_about_the_segments_that_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Episodes of 20 states have segments of 10: none is too short."""
    short = Trajectories(np.arange(200.0)[:, None].repeat(2, axis=1), np.arange(0, 201, 20), meta=Meta(position=(0, 1)))
    short.save(tmp_path / "short.npz")
    assert segment_of(short) == spec_of(short).segment == 10
    assert main(["data", "inspect", str(tmp_path / "short.npz")]) == 0
    output = capsys.readouterr().out
    assert "displacement over 10 states" in output
    assert "shorter than a segment" not in output


def test_data_without_a_position_keeps_the_defaults():
    spec = spec_of(replace(toy.make(5), meta=Meta()))
    assert (spec.path_steps, spec.waypoints, spec.stitches) == (None, None, 40)


def test_an_own_maze_gets_the_lengths_that_its_longest_path_needs():
    maze = parse_maze(SPIRAL, "spiral")
    meta = custom_collection("pointmaze-spiral-stitch-v0").meta(maze)
    spec = spec_of_meta(meta, columns=2, episode_states=201)
    longest = 4 * max(maze.distances(cell).max() for cell in maze.cells)
    assert spec.path_steps == round(longest / 0.15)
    assert (spec.waypoints - 1) * 25 > spec.path_steps
    assert spec.reference_limit > spec.path_steps
    assert spec.discount == 0.995


def test_published_settings_stay_as_they_are():
    data = toy.make(20)
    assert spec_of(data) == SPECS[toy.ID]
