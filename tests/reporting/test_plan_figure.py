"""The map of plans: what is drawn where, over the support or the recorded data, in one column or more."""

from pathlib import Path

import numpy as np
import pytest
from pictures import frames_of, share_drawn

from scots.data.support import Support
from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets import toy
from scots.datasets.specs import SPECS
from scots.experiments.planning import PlannedPath
from scots.planners.base import Plan
from scots.reporting.maps import save_figure
from scots.reporting.plan_figure import plan_figure

DATA = toy.make(episodes=40)
OWN = Meta(columns=("x", "y"), position=(0, 1))


def path_of(positions: Array) -> PlannedPath:
    """A plan with two candidates, of which one is an outline, and neither waits."""
    names = ("x", "y", "z")[: positions.shape[1]]
    others = [positions + 1, positions + 2]
    others[1][1::2] = np.nan
    others[1][-1] = others[0][-1] = positions[-1] + 9
    return PlannedPath(
        positions, names, 12.3, 45.0, 0.25, 0.0, tuple(Plan(own, seed=0) for own in others), (0.0,) * len(others)
    )


def lines_of(figure) -> dict[str, list[Array]]:
    """Lines on the map by colour and shape: what they look like tells what they are."""
    found: dict[str, list[Array]] = {}
    for line in figure.axes[0].lines:
        found.setdefault(line.get_label() if line.get_label()[:1] != "_" else "", []).append(line.get_xydata())
    return found


def test_candidates_plan_and_ends_are_drawn_over_the_support():
    path = path_of(DATA.positions[:20])
    figure = plan_figure([path], Support.of(DATA), OWN)
    drawn = lines_of(figure)
    assert np.array_equal(drawn["best plan"][0], path.positions)
    assert np.array_equal(drawn["start"][0], path.positions[:1])
    assert np.array_equal(drawn["goal"][0], path.positions[-1:])
    first, second = (own.positions for own in path.candidates)
    assert np.array_equal(drawn["candidates"][0], first)
    assert np.array_equal(drawn[""][0], second[np.isfinite(second[:, 0])])
    [support] = figure.axes[0].collections
    centers = np.array([box.vertices[:4].mean(axis=0) for box in support.get_paths()])
    assert np.allclose(np.unique(centers, axis=0), np.unique(Support.of(DATA).centers(), axis=0), atol=1e-5)
    assert "about 45 steps, cost 12.3, 25 % off" in figure.axes[0].get_title()


def test_recorded_data_takes_the_place_of_the_support():
    drawn = lines_of(plan_figure([path_of(DATA.positions[:20])], Support.of(DATA), OWN, DATA))
    assert np.array_equal(np.unique(drawn["recorded data"][0], axis=0), np.unique(DATA.positions, axis=0))


def test_walls_are_drawn_where_they_are_known():
    walls = [
        len(plan_figure([path_of(DATA.positions[:9])], Support.of(DATA), m).axes[0].collections)
        for m in (OWN, SPECS["pointmaze-medium-stitch-v0"].collection.meta())
    ]
    assert walls == [1, 2]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_plans_of_any_number_of_columns_are_drawn(columns: int, tmp_path: Path):
    positions = np.random.default_rng(0).normal(size=(60, columns)).cumsum(axis=0).astype(np.float32)
    data = Trajectories(positions, [0, 60], meta=Meta(position=tuple(range(columns))))
    paths = [path_of(positions[:30]), path_of(positions[30:])]
    figure = plan_figure(paths, Support.of(data), data.meta)
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y" if columns > 1 else "step")
    assert axes.get_title() == "2 plans"
    save_figure(figure, tmp_path / "plan.png")
    [picture] = frames_of(tmp_path / "plan.png")
    assert share_drawn(picture) > 0.001
