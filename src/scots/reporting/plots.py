"""The pictures of `scots report`: what was stitched, where it goes, how well it is joined, what the embedding knows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scots.augmenters.embedding import Encoder
from scots.core.files import atomic
from scots.data.inspection import position_columns
from scots.data.trajectories import Array, Trajectories
from scots.reporting.augmentation import Walker, augmentation_of
from scots.reporting.document import Picture
from scots.reporting.maps import INK, draw_episodes, draw_maze, label_axes
from scots.reporting.metrics import Calibration, Distribution, Dynamics, Joins, some
from scots.reporting.quality import Quality, known_maze, located

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DRAWN = 8  # trajectories: more long ones would hide each other
MAP_STATES = 200_000  # drawn in each coverage map
MAP_BINS = 120
LATENTS = 2000  # states in the map of the latent space
BETAS = (0.0, 2.0, 20.0)  # novelty weights of the paper's Figure 3
DIRECTIONS = 6
STARTS = 1000  # walks among which those that start close together are looked for
BEFORE, AFTER, INSIDE, FLOOR = "#d1495b", "#2e6f95", "#8fbcd4", "#9aa5b1"  # colours of unrefined, refined and recorded
CORNERS = ((0.20, 0.25, 0.65), (0.10, 0.65, 0.55), (0.85, 0.25, 0.35), (0.98, 0.80, 0.20))


CAPTIONS: dict[str, tuple[str, str]] = {
    "trajectories": (
        "Original and augmented trajectories",
        "As many of each, seen from above. Original episodes are short; a stitched trajectory goes on from one "
        "recorded segment to the next.",
    ),
    "coverage": (
        "Where the states are",
        "Share of the states in each small bin, on one colour scale for both. Where the augmented data is blank and "
        "the original is not, places were lost.",
    ),
    "joins": (
        "Length of steps",
        "Without refinement, steps from one segment to the next are longer than others; with it they should look "
        "like steps inside segments.",
    ),
    "dynamics": (
        "Dynamic MSE",
        "How far each next state is from where the simulator gets by the labelled action, squared. Refined joins "
        "should lie left of unrefined ones, near what labelling alone leaves.",
    ),
    "calibration": (
        "Latent distance and path length",
        "If the embedding knows the maze, latent distance grows with the length of the shortest path.",
    ),
    "latents": (
        "The latent space",
        "The same states by position and by a flat map of their latents, in the same colours. Colours that stay "
        "together on both sides are places that the embedding keeps together.",
    ),
    "novelty-weight": (
        "Progress against novelty",
        "The same starts and directions under three novelty weights, not refined. With none, only progress in the "
        "direction counts; a larger weight leads to where a walk has not been.",
    ),
}
"""Title of each picture and what one sees in it, by the name of its file."""


def draw(
    data: Trajectories, aug: Trajectories, quality: Quality, folder: Path, encoder: Encoder | None = None
) -> list[Picture]:
    """Write every picture there is something to draw for, as PNG files in the folder; give them with their captions."""
    made, data = augmentation_of(data, aug), located(data, aug)
    encoder = encoder or made.encoder
    pictures: list[Picture] = []

    def path(name: str) -> Path:
        pictures.append(Picture(folder / f"{name}.png", *CAPTIONS[name]))
        return pictures[-1].path

    trajectories_figure(data, aug, path("trajectories"))
    coverage_figure(data, aug, path("coverage"))
    if quality.joins:
        joins_figure(quality.joins, path("joins"))
    if quality.dynamics:
        dynamics_figure(quality.dynamics, path("dynamics"))
    if quality.calibration:
        calibration_figure(quality.calibration, path("calibration"))
    if encoder:
        latents_figure(data, encoder, path("latents"))
    if made.walker:
        beta_figure(data, made.walker, path("novelty-weight"))
    return pictures


# --------------------------------------------------------------------------------------------------------- from above


def trajectories_figure(data: Trajectories, aug: Trajectories, path: Path) -> None:
    """Write a PNG: as many original episodes on the left as stitched trajectories on the right."""
    figure, (left, right) = _panels(2, shared=True)
    columns = position_columns(data)[0][:2]
    for axes, part, label in ((left, data, "original"), (right, aug, "augmented")):
        chosen = part.select(np.unique(np.linspace(0, len(part) - 1, DRAWN).astype(int)))
        draw_episodes(axes, chosen, columns)
        states = np.median(chosen.lengths)
        axes.set_title(f"{len(chosen)} {label}, {states:,.0f} states each, dots where they start", fontsize=11)
    _finish_maps([left, right], data, columns)
    _save(figure, path, data.meta.dataset)


def coverage_figure(data: Trajectories, aug: Trajectories, path: Path) -> None:
    """Write a PNG: where the states of the original and of the augmented data are, on one colour scale."""
    from matplotlib.colors import LogNorm

    figure, (left, right) = _panels(2, shared=True)
    columns = position_columns(data)[0][:2]
    samples = [_places(part, columns, MAP_STATES) for part in (data, aug)]
    together = np.concatenate(samples)
    extent = [(float(low), float(high)) for low, high in zip(together.min(0), together.max(0), strict=True)]
    densities = [np.histogram2d(places[:, 0], places[:, 1], bins=MAP_BINS, range=extent) for places in samples]
    shares = [counts / counts.sum() for counts, _, _ in densities]
    norm = LogNorm(min(share[share > 0].min() for share in shares), max(share.max() for share in shares))
    for axes, share, (_, x, y), label in zip((left, right), shares, densities, ("original", "augmented"), strict=True):
        image = axes.pcolormesh(x, y, np.ma.masked_equal(share.T, 0), norm=norm, cmap="viridis", zorder=1)
        axes.set_title(label, fontsize=11)
    figure.colorbar(image, ax=[left, right], shrink=0.8, label="share of states in a bin")
    _finish_maps([left, right], data, columns)
    _save(figure, path, data.meta.dataset)


def beta_figure(data: Trajectories, walker: Walker, path: Path) -> None:
    """Write a PNG like the paper's Figure 3: the same starts and directions under three novelty weights.

    What is drawn is not refined.
    """
    from matplotlib import colormaps

    columns, stitches = position_columns(data)[0][:2], walker.config.stitching.stitches

    def walked(beta: float, stitches: int, numbers: range) -> Array:
        return data.observations[walker.rows(beta, stitches, numbers)][:, :, list(columns)]

    numbers = _close_together(walked(BETAS[0], 1, range(STARTS))[:, 0])
    figure, panels = _panels(len(BETAS), shared=True)
    for axes, beta in zip(panels, BETAS, strict=True):
        for colour, number in enumerate(numbers):
            places = walked(beta, stitches, range(number, number + 1))[0]
            axes.plot(*places.T, color=colormaps["tab10"](colour), linewidth=1.1, alpha=0.85, zorder=2)
            axes.plot(*places[-1], "o", color=colormaps["tab10"](colour), markersize=6, markeredgecolor=INK, zorder=4)
            axes.plot(*places[0], "*", color="white", markersize=11, markeredgecolor=INK, zorder=3)
        axes.set_title(f"novelty weight {beta:g}", fontsize=11)
    _finish_maps(panels, data, columns)
    title = f"{DIRECTIONS} directions from one place, {stitches} segments each: stars start, dots end"
    _save(figure, path, title)


def _close_together(starts: Array) -> Array:
    """Numbers of the trajectories that start nearest to the start in the middle of all (D,)."""
    middle = np.linalg.norm(starts - np.median(starts, axis=0), axis=1).argmin()
    return np.argsort(np.linalg.norm(starts - starts[middle], axis=1), kind="stable")[:DIRECTIONS]


def latents_figure(data: Trajectories, encoder: Encoder, path: Path) -> None:
    """Write a PNG: some states by position on the left, their latents by t-SNE on the right, in the same colours."""
    rows = some(np.arange(data.rows), LATENTS, np.random.default_rng(0))
    columns = position_columns(data)[0][:2]
    places = data.observations[rows][:, list(columns)]
    latents = encoder.encode(data.observations[rows])
    layout = _flat_map(encoder, latents)
    colours = _colours(places)
    figure, (left, right) = _panels(2)
    x, y = _plane(places)
    left.scatter(x, y, c=colours, s=7, zorder=2)
    left.set_title("position", fontsize=11)
    right.scatter(layout[:, 0], layout[:, 1], c=colours, s=7)
    right.set_title("t-SNE of the latents", fontsize=11)
    right.set_xticks([])
    right.set_yticks([])
    right.set_aspect("equal", adjustable="datalim")
    _finish_maps([left], data, columns)
    _save(figure, path, f"{len(rows):,} states of {data.meta.dataset or 'the data'}")


def _flat_map(encoder: Encoder, latents: Array) -> Array:
    """A layout of latents (N, Z) in the plane by t-SNE, from their distances both ways: (N, 2)."""
    from sklearn.manifold import TSNE

    there = np.stack([encoder.distance(latent, latents) for latent in latents])
    layout = TSNE(perplexity=min(30, (len(latents) - 1) / 3), metric="precomputed", init="random", random_state=0)
    return layout.fit_transform((there + there.T) / 2)


def _colours(places: Array) -> Array:
    """A colour for each place (N, P) that changes evenly over the plane: a blend of four corner colours."""
    low, extent = places.min(axis=0), np.ptp(places, axis=0)
    right, up = _plane((places - low) / np.where(extent > 0, extent, 1))
    weights = np.stack([(1 - right) * (1 - up), (1 - right) * up, right * (1 - up), right * up], axis=1)
    return np.clip(weights @ np.array(CORNERS), 0, 1)


# ------------------------------------------------------------------------------------------------------ distributions


def dynamics_figure(dynamics: Dynamics, path: Path) -> None:
    """Write a PNG: Dynamic MSE at joins with and without refinement, beside what rounding and labelling leave."""
    figure, (axes,) = _panels(1)
    for found, style, colour, label in (
        (dynamics.unrefined_joins, _histogram, BEFORE, "joins before refinement"),
        (dynamics.refined_joins, _histogram, AFTER, "joins after refinement"),
        (dynamics.inside, _outline, INSIDE, "augmented, not at joins"),
        (dynamics.relabelled, _outline, INK, "recorded, with labelled actions"),
        (dynamics.recorded, _outline, FLOOR, "recorded"),
    ):
        if found:
            style(axes, found, colour, label)
    _finish_histogram(axes, "Dynamic MSE")
    _save(figure, path, "Squared distance from where the simulator gets to the next state")


def joins_figure(joins: Joins, path: Path) -> None:
    """Write a PNG: how long steps are at joins before and after refinement, and inside segments."""
    figure, panels = _panels(2)
    labels = ("length of the step in position", "length of the step in normalised state")
    for axes, steps, label in zip(panels, (joins.position, joins.state), labels, strict=True):
        _histogram(axes, steps.unrefined_joins, BEFORE, "joins without refinement")
        _histogram(axes, steps.refined_joins, AFTER, "joins with refinement")
        _outline(axes, steps.inside, INSIDE, "inside refined segments")
        _outline(axes, steps.recorded, FLOOR, "inside recorded segments")
        _finish_histogram(axes, label)
    _save(figure, path, f"Steps at {joins.count:,} joins and inside segments")


def _histogram(axes: Axes, found: Distribution, colour: str, label: str) -> None:
    label = f"{label} (median {found.spread.median:.2g})"
    axes.stairs(_shares(found), found.edges, fill=True, color=colour, alpha=0.6, label=label, zorder=2)


def _outline(axes: Axes, found: Distribution, colour: str, label: str) -> None:
    label = f"{label} (median {found.spread.median:.2g})"
    axes.stairs(_shares(found), found.edges, color=colour, linewidth=1.8, label=label, zorder=3)


def _shares(found: Distribution) -> Array:
    return np.array(found.counts) / found.spread.count


def _finish_histogram(axes: Axes, label: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(label, color=INK)
    axes.set_ylabel("share of steps", color=INK)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.35)  # room for the legend
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    _plain(axes)


def calibration_figure(calibration: Calibration, path: Path) -> None:
    """Write a PNG: latent distance against path length, its mean and the band from 10 to 90 %."""
    figure, (axes,) = _panels(1)
    axes.fill_between(calibration.path, calibration.low, calibration.high, color=INSIDE, alpha=0.5, label="10 to 90 %")
    axes.plot(calibration.path, calibration.mean, color=AFTER, linewidth=2, label="mean")
    axes.set_xlabel("shortest path", color=INK)
    axes.set_ylabel("latent distance", color=INK)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=9, loc="upper left", frameon=False)
    _plain(axes)
    words = [f"{value:.3f}" for value in (calibration.near, calibration.all) if value is not None]
    _save(figure, path, f"Rank correlation {' near, '.join(words)} overall" if len(words) == 2 else "Distances")


# -------------------------------------------------------------------------------------------------------------- parts


def _panels(count: int, shared: bool = False) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure  # the object interface: no display, no global state

    figure = Figure(figsize=(6.5 * count, 5.6), layout="compressed" if shared else "constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, count, sharex=shared, sharey=shared)))


def _finish_maps(panels: list[Axes], data: Trajectories, columns: tuple[int, ...]) -> None:
    for axes in panels:
        draw_maze(axes, known_maze(data))
        label_axes(axes, data, columns)


def _places(data: Trajectories, columns: tuple[int, ...], count: int) -> Array:
    rows = some(np.arange(data.rows), count, np.random.default_rng(0))
    return np.stack(_plane(data.observations[rows][:, list(columns)]), axis=1)


def _plane(places: Array) -> tuple[Array, Array]:
    """Both coordinates of each place (N, P); a line lies at height zero."""
    return places[:, 0], places[:, 1] if places.shape[1] > 1 else np.zeros(len(places), places.dtype)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e5e9ed", linewidth=0.7, zorder=0)
    axes.set_axisbelow(True)


def _save(figure: Figure, path: Path, title: str | None) -> None:
    figure.suptitle(title or "", fontsize=13)
    with atomic(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png", bbox_inches="tight")
