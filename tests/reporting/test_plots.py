"""Figures show what was measured: what is drawn is looked at, not only that a picture was written."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure
from PIL import Image

from scots.augmenters import AUGMENTERS
from scots.core.errors import BadInput
from scots.data.trajectories import Meta, Trajectories
from scots.datasets import toy
from scots.datasets.specs import spec_of
from scots.envs.maze import MAZES
from scots.reporting import plots
from scots.reporting.augmentation import augmentation_of
from scots.reporting.calibration import Calibration
from scots.reporting.dynamics import Dynamics
from scots.reporting.lineage import Joins, StepLengths
from scots.reporting.maps import dataset_figure, save_figure
from scots.reporting.metrics import Distribution
from scots.reporting.plots import (
    CAPTIONS,
    NOVELTY_WEIGHTS,
    calibration_figure,
    coverage_figure,
    dynamics_figure,
    joins_figure,
    latents_figure,
    novelty_figure,
    off_data_figure,
    trajectories_figure,
)

CURVE = ((1.0, 2.0), (3.0, 4.0), (2.0, 3.0), (4.0, 5.0))  # path, mean, low, high


def distribution(median: float, count: int = 9) -> Distribution:
    return Distribution.of(np.full(count, median))


def dynamics(places: tuple[float, ...] = (), **kinds: Distribution | None) -> Dynamics:
    """Dynamic MSE of some kinds of steps."""
    names = ("unrefined_joins", "refined_joins", "inside", "generated", "kept", "recorded", "relabelled")
    given = {name: kinds.get(name) for name in names}
    return Dynamics(**given, one_step=1.0, shares={}, means={}, groups={}, places=places)


def legend(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def panels(figure: Figure) -> list[Axes]:
    """The axes that hold data; colour bars have no title."""
    return [axes for axes in figure.axes if axes.get_title() or axes.get_legend()]


def lines(axes: Axes) -> list[np.ndarray]:
    """Points of each line that has more than one."""
    return [line.get_xydata() for line in axes.lines if len(line.get_xydata()) > 1]


# -------------------------------------------------------------------------------------------------------- distributions


def test_dynamics_shows_each_kind_that_was_measured():
    kinds = {"unrefined_joins": 2.0, "refined_joins": 0.5, "inside": 0.1, "recorded": 1e-9, "relabelled": 1e-3}
    found = dynamics(**{kind: distribution(median) for kind, median in kinds.items()})
    [axes] = panels(dynamics_figure(found))
    assert legend(axes) == [
        "joins before refinement (median 2)",
        "joins after refinement (median 0.5)",
        "augmented, not at joins (median 0.1)",
        "recorded, with labelled actions (median 0.001)",
        "recorded (median 1e-09)",
    ]
    assert (axes.get_xscale(), axes.get_xlabel()) == ("log", "Dynamic MSE")
    for patch in axes.patches:
        values, edges, _ = patch.get_data()
        assert sum(values) == 1
        assert edges[0] < edges[-1]
    without = dynamics(inside=distribution(0.1), recorded=distribution(0.0))
    [axes] = panels(dynamics_figure(without))
    assert legend(axes) == ["augmented, not at joins (median 0.1)", "recorded (median 0)"]


def test_generated_steps_are_shown_instead_of_all_inside():
    found = dynamics(inside=distribution(0.1), generated=distribution(0.3), recorded=distribution(1e-9))
    [axes] = panels(dynamics_figure(found))
    assert legend(axes) == ["with a generated state, not at joins (median 0.3)", "recorded (median 1e-09)"]


def test_places_are_drawn_in_order_between_their_floors():
    found = dynamics((2.0, 1.0, 0.0), unrefined_joins=distribution(70.0), recorded=distribution(1e-9))
    [_, axes] = panels(dynamics_figure(found))
    assert [line.get_ydata()[0] for line in axes.lines[1:]] == [70.0, 1e-9]
    assert axes.lines[0].get_xydata().tolist() == [[0, 2], [1, 1], [2, 0]]
    assert legend(axes) == ["augmented steps (1 on average)", "joins before refinement", "recorded"]
    assert axes.get_ylim()[0] < 0 < 70 < axes.get_ylim()[1]


def test_joins_has_a_panel_for_positions_and_one_for_states():
    steps = [StepLengths(*(distribution(scale * k) for k in (4.0, 1.0, 0.9, 1.0)), ratio=1.1) for scale in (1, 10)]
    figure = joins_figure(Joins(1200, *steps))
    left, right = panels(figure)
    assert figure.get_suptitle() == "Steps at 1,200 joins and inside segments"
    assert [left.get_xlabel(), right.get_xlabel()] == [
        "length of the step in position",
        "length of the step in normalised state",
    ]
    assert legend(left)[0] == "joins before refinement (median 4)"
    assert legend(right)[0] == "joins before refinement (median 40)"
    assert len(left.patches) == len(right.patches) == 4


def test_calibration_shows_mean_and_band():
    figure = calibration_figure(Calibration(100, 0.9, 0.8, *CURVE))
    [axes] = panels(figure)
    assert figure.get_suptitle() == "Rank correlation 0.900 nearby, 0.800 for all pairs"
    [mean] = lines(axes)
    assert mean.tolist() == [[1, 3], [2, 4]]
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (2, 5)
    assert legend(axes) == ["10 to 90 %", "mean"]
    assert axes.get_xlim()[0] == axes.get_ylim()[0] == 0
    assert "nearby" not in calibration_figure(Calibration(100, None, None, *CURVE)).get_suptitle()


# ----------------------------------------------------------------------------------------------------------------- maps


def walks(episodes: int, states: int) -> Trajectories:
    steps = np.random.default_rng(0).normal(size=(episodes, states, 2))
    offsets = np.arange(episodes + 1) * states
    return Trajectories(steps.cumsum(axis=1).reshape(-1, 2), offsets, meta=Meta(columns=("x", "y"), position=(0, 1)))


def test_trajectories_are_drawn_whole_and_evenly_chosen():
    data, aug = walks(50, 20), walks(9, 200)
    left, right = panels(trajectories_figure(data, aug))
    assert left.get_title() == "8 original, 20 states each"
    assert right.get_title() == "8 augmented, 200 states each"
    drawn = lines(right)
    assert len(drawn) == 8
    np.testing.assert_array_equal(drawn[0], aug.observations[:200])
    np.testing.assert_array_equal(drawn[-1], aug.observations[-200:])
    np.testing.assert_array_equal(lines(left)[-1], data.observations[-20:])
    dots = [line.get_xydata() for line in right.lines if len(line.get_xydata()) == 1]
    assert [dot[0].tolist() for dot in dots] == [path[0].tolist() for path in drawn]
    assert (left.get_xlabel(), left.get_ylabel(), right.get_xlabel()) == ("x", "y", "x")
    assert left.get_aspect() == right.get_aspect() == 1
    assert left.get_xlim() == right.get_xlim()


def test_of_short_trajectories_more_are_drawn():
    [_, right] = panels(trajectories_figure(walks(50, 20), walks(1000, 2)))
    assert right.get_title() == "300 augmented, 2 states each"
    assert len(lines(right)) == 300


def test_what_lies_off_the_data_is_drawn_where_it_is():
    lanes = np.stack([np.tile(np.arange(50.0), 10), np.repeat(np.linspace(-0.1, 0.1, 10), 50)], axis=1)
    data = Trajectories(lanes, np.arange(11) * 50, meta=Meta(columns=("x", "y"), position=(0, 1)))
    moved = lanes.copy()
    moved[::10, 1] += 7
    figure = off_data_figure(data, Trajectories(moved, data.offsets, meta=data.meta))
    [axes] = figure.axes
    recorded, off = (np.asarray(part.get_offsets()) for part in axes.collections)
    assert len(recorded) == data.rows
    np.testing.assert_allclose(off, moved[::10], rtol=1e-6)
    assert figure.get_suptitle() == "50 of 500 augmented positions lie off the data"


def test_coverage_has_one_scale_for_both():
    data, aug = walks(20, 50), walks(1, 50)
    figure = coverage_figure(data, aug)
    left, right = panels(figure)
    assert [left.get_title(), right.get_title()] == ["original", "augmented"]
    meshes = [next(part for part in axes.collections if isinstance(part, QuadMesh)) for axes in (left, right)]
    assert meshes[0].norm is meshes[1].norm
    assert [mesh.get_array().sum() for mesh in meshes] == pytest.approx([1, 1])
    corners = meshes[0].get_coordinates()
    np.testing.assert_array_equal(corners, meshes[1].get_coordinates())
    np.testing.assert_allclose(corners[0, 0], data.observations.min(axis=0), rtol=1e-5)
    np.testing.assert_allclose(corners[-1, -1], data.observations.max(axis=0), rtol=1e-5)


@pytest.mark.parametrize("columns", [1, 2])
def test_a_dataset_with_one_position_column_is_drawn_against_the_step(columns: int):
    data = toy.make(episodes=5).with_meta(position=(0, 1)[:columns])
    left, right = panels(dataset_figure(data, data.meta.position, "mine"))
    assert right.get_title() == "5 episodes, dots where they start"
    first = data.observations[: data.lengths[0]]
    expected = first if columns == 2 else np.stack([first[:, 0], np.arange(len(first))], axis=1)
    np.testing.assert_array_equal(lines(right)[0], expected)
    assert left.get_ylabel() == right.get_ylabel() == (data.meta.columns[1] if columns == 2 else "step")


def test_walls_are_drawn_where_they_are():
    data = walks(3, 9).with_meta(environment="pointmaze-medium-v0")
    for axes in panels(dataset_figure(data, (0, 1))):
        [walls] = [part for part in axes.collections if isinstance(part, PolyCollection) and part.get_zorder() == 0]
        centres = np.array([path.vertices[:4].mean(axis=0) for path in walls.get_paths()])
        assert len(centres) == MAZES["medium"].walls.sum()
        assert MAZES["medium"].in_wall(centres).all()
        assert (axes.get_xlim(), axes.get_ylim()) == ((-6, 26), (-6, 26))


# ------------------------------------------------------------------------------------------------------ with an encoder


@pytest.fixture(scope="module")
def corridor(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trajectories, Trajectories]:
    """The toy corridor, and it stitched in raw states without refinement: nothing but inverse dynamics is trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(tmp_path_factory.mktemp("home")))
        data = toy.make(episodes=40)
        scots = AUGMENTERS["scots"]
        changes = {"stitching.segment": 9, "encoder": "raw", "refine": False, "inverse.training.steps": 2}
        config = scots.configure(spec_of(data), "smoke").replace_all(changes)
        yield data, scots.augment(data, config, seed=0, profile="smoke", workers=1)


@pytest.mark.slow
def test_latents_have_the_colours_of_their_positions(
    corridor: tuple[Trajectories, Trajectories], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plots, "LATENTS", 60)
    data, aug = corridor
    figure = latents_figure(data, augmentation_of(data, aug).encoder)
    left, right = panels(figure)
    positions, layout = left.collections[0], right.collections[0]
    assert len(positions.get_offsets()) == len(layout.get_offsets()) == 60
    np.testing.assert_array_equal(positions.get_facecolors(), layout.get_facecolors())
    assert len(np.unique(positions.get_facecolors(), axis=0)) > 10
    rows = {tuple(row) for row in data.observations.tolist()}
    assert all(tuple(point) in rows for point in positions.get_offsets().tolist())
    assert figure.get_suptitle() == f"60 states of {toy.ID}"


@pytest.mark.slow
def test_novelty_weights_share_starts_and_directions(corridor: tuple[Trajectories, Trajectories]):
    data, aug = corridor
    figure = novelty_figure(data, augmentation_of(data, aug).walker)
    axes = panels(figure)
    assert [panel.get_title() for panel in axes] == [f"novelty weight {weight:g}" for weight in NOVELTY_WEIGHTS]
    paths = [lines(panel) for panel in axes]
    assert [len(own) for own in paths] == [6, 6, 6]
    starts = [[path[0].tolist() for path in own] for own in paths]
    assert np.ptp(np.concatenate(starts), axis=0).max() < 1  # the segments nearest to a few neighbouring states
    assert any(not np.array_equal(a, b) for a, b in zip(paths[0], paths[2], strict=True))
    assert len(paths[0][0]) == 6 * 8 + 1
    assert figure.get_suptitle().startswith("6 directions from one position, 6 segments each")


# --------------------------------------------------------------------------------------------------------------- files


def test_figures_are_written_whole_and_by_the_name_of_the_file(tmp_path: Path):
    figure = calibration_figure(Calibration(100, 0.9, 0.8, *CURVE))
    for name in ("figure.png", "figure.PNG", "figure"):
        save_figure(figure, tmp_path / name)
        with Image.open(tmp_path / name) as image:
            assert (image.format, image.width > 500) == ("PNG", True)
    save_figure(figure, tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(BadInput, match=r"figure\.xyz: figures are not written as \.xyz; choose one of"):
        save_figure(figure, tmp_path / "figure.xyz")


def test_every_figure_has_a_caption_of_whole_sentences():
    for title, caption in CAPTIONS.values():
        assert title[0].isupper()
        assert caption.endswith(".")
