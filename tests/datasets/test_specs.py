"""The settings of every dataset against the published ones, and those of data that nobody has published."""

from dataclasses import replace

import numpy as np
import pytest

from scots.agents import AGENTS
from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import toy
from scots.datasets.loading import known_meta
from scots.datasets.specs import SPECS, custom_collection, spec_of
from scots.envs import ENVIRONMENTS
from scots.envs.maze import MAZES, parse_maze

PUBLISHED = """
    dataset                     columns discount stitches waypoints agent  tolerance replan lookahead limit
    pointmaze-medium-stitch-v0  2       0.99     40       21        gciql  1.0       50     10        1000
    pointmaze-large-stitch-v0   2       0.99     40       21        gciql  1.0       50     10        1000
    pointmaze-giant-stitch-v0   2       0.995    80       41        gciql  1.0       50     10        2000
    antmaze-medium-stitch-v0    29      0.99     40       21        crl    3.0       50     5         1000
    antmaze-large-stitch-v0     29      0.99     40       21        crl    3.0       50     5         2000
    antmaze-giant-stitch-v0     29      0.995    80       41        crl    3.0       50     5         2000
    antmaze-medium-explore-v0   29      0.99     80       41        gciql  1.0       50     10        2000
    antmaze-large-explore-v0    29      0.99     80       41        gciql  1.0       50     10        2000
"""
"""The configuration files and scripts of the official code."""
ROWS = [line.split() for line in PUBLISHED.strip().splitlines()[1:]]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_settings_are_those_of_the_official_code(row: list[str]):
    spec = SPECS[row[0]]
    found = [
        spec.columns,
        spec.discount,
        spec.stitches,
        spec.waypoints,
        spec.controller,
        spec.goal_tolerance,
        spec.replan_every,
        spec.lookahead,
        spec.reference_limit,
    ]
    assert list(map(str, found)) == row[1:]
    assert spec.min_displacement == 2.0
    assert spec.is_published


@pytest.mark.parametrize(
    ("words", "gciql", "crl", "qrl", "hiql"),
    [("point", 0.003, 0.03, 0.0003, 3.0), ("ant", 0.3, 0.1, 0.003, 3.0), ("explore", 0.01, 0.003, 0.001, 10.0)],
)
def test_imitation_is_weighted_as_in_the_benchmark(words: str, gciql: float, crl: float, qrl: float, hiql: float):
    is_explore = words == "explore"
    chosen = [spec for id, spec in SPECS.items() if id.startswith("ant" if is_explore else words)]
    chosen = [spec for spec in chosen if ("explore" in spec.id) == is_explore]
    assert len(chosen) >= 3
    for spec in chosen:
        assert {name: spec.agents[name]["alpha"] for name in ("gciql", "crl", "qrl")} == {
            "gciql": gciql,
            "crl": crl,
            "qrl": qrl,
        }
        assert (spec.agents["hiql"]["high_alpha"], spec.agents["hiql"]["low_alpha"]) == (hiql, hiql)
        assert (spec.actor_goals is not None) == (words == "explore")


def test_limits_are_those_of_the_benchmark_and_of_the_official_code():
    assert SPECS["pointmaze-giant-stitch-v0"].step_limits == (1000, 2000)
    assert SPECS["pointmaze-large-stitch-v0"].step_limits == (1000,)
    assert SPECS[toy.ID].step_limits == (1000,)


@pytest.mark.parametrize("spec", SPECS.values(), ids=list(SPECS))
def test_every_row_is_consistent(spec):
    assert SPECS[spec.id] is spec
    assert spec.controller in AGENTS
    assert set(spec.agents) <= set(AGENTS)
    assert spec.environment.partition("-")[0] in ENVIRONMENTS
    if spec.collection:
        assert (spec.collection.id, spec.collection.states) == (spec.id, spec.episode_states)
        assert spec.collection.environment == spec.environment
        assert len(spec.collection.meta().columns) == spec.columns
    assert type(spec).from_json(spec.to_json()) == spec


# ------------------------------------------------------------------------------------------------------------ look-up


def tracks(meta: Meta, states: int = 120) -> Trajectories:
    observations = np.zeros((2 * states, len(meta.columns) or 3), dtype=np.float32)
    return Trajectories(observations, [0, states, 2 * states], meta=meta)


@pytest.mark.parametrize("id", ["pointmaze-giant-stitch-v0", toy.ID])
def test_a_known_dataset_has_its_row(id: str):
    assert spec_of(tracks(known_meta(id))) is SPECS[id]


@pytest.mark.parametrize(
    "name", [None, "my-maze-giant", "my-pointmaze-giant-stitch-v0", "antmaze-giant", "explore-v0", "pointmaze-giant-v0"]
)
def test_words_in_the_name_of_own_data_decide_nothing(name: str | None):
    spec = spec_of(tracks(Meta(dataset=name)))
    assert not spec.is_published
    assert (spec.columns, spec.episode_states) == (3, 120)
    assert (spec.stitches, spec.waypoints, spec.discount, spec.min_displacement) == (40, None, 0.99, None)
    assert (spec.lookahead, spec.goal_tolerance, spec.step_limits, spec.agents) == (10, 1.0, (1000,), {})


def test_own_data_that_only_borrows_an_id_has_settings_of_its_own():
    """The id of a published dataset, but nothing that says it is of that environment, or another maze."""
    assert not spec_of(tracks(Meta(dataset="pointmaze-giant-stitch-v0"))).waypoints
    maze = replace(known_meta("pointmaze-giant-stitch-v0"), maze=("####", "#..#", "####"))
    assert spec_of(tracks(replace(maze, dataset="mine"))).waypoints is None


def test_a_custom_maze_has_the_settings_of_the_medium_one():
    ring = parse_maze(("########", "#......#", "#.####.#", "#......#", "########"), "ring")
    collection = custom_collection("antmaze-ring-stitch-v0")
    spec, medium = spec_of(tracks(collection.meta(ring))), SPECS["antmaze-medium-stitch-v0"]
    assert (spec.collection, spec.id) == (collection, "antmaze-ring-stitch-v0")
    same = {"collection": None, "id": "", "environment": None}
    by_its_way_and_rows = ("path_steps", "waypoints", "stitches", "chunks", "augmented_states")
    own = {name: getattr(spec, name) for name in by_its_way_and_rows}
    assert replace(spec, **same) == replace(medium, **same, **own)


def test_a_custom_maze_called_giant_has_not_the_settings_of_the_giant_one():
    giant = parse_maze(("########", "#......#", "#.####.#", "#......#", "########"), "giant")
    spec = spec_of(tracks(SPECS["pointmaze-giant-stitch-v0"].collection.meta(giant)))
    assert (spec.stitches, spec.waypoints, spec.discount, spec.step_limits) == (20, 11, 0.99, (1000,))


@pytest.mark.parametrize("name", MAZES)
def test_a_custom_maze_does_not_take_the_name_of_a_known_one(name: str):
    with pytest.raises(BadInput, match=f"{name} is a maze of the benchmark; .*such as pointmaze-my{name}-stitch-v0"):
        custom_collection(f"pointmaze-{name}-stitch-v0")


@pytest.mark.parametrize("id", ["pointmaze-stitch-v0", "mine", "pointmaze-a/b-stitch-v0", "pointmaze-a-stitch-v0-val"])
def test_an_id_in_a_custom_maze_says_body_and_protocol(id: str):
    with pytest.raises(BadInput, match="must look like pointmaze-NAME-stitch-v0"):
        custom_collection(id)
