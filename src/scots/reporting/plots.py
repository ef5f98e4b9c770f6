"""The figures of `scots report`: trajectories, coverage, joins, dynamics, and what the embedding has learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scots.augmenters.embedding import StateEncoder
from scots.data.inspection import position_columns
from scots.data.manifold import Manifold
from scots.data.trajectories import Array, Meta, Trajectories
from scots.reporting.augmentation import Walker, augmentation_of
from scots.reporting.calibration import Calibration
from scots.reporting.document import Picture
from scots.reporting.dynamics import Dynamics
from scots.reporting.lineage import Joins, StepLengths
from scots.reporting.maps import (
    INK,
    draw_episodes,
    draw_maze,
    label_axes,
    points,
    points_of_rows,
    save_figure,
    spread_out,
)
from scots.reporting.metrics import Distribution, sample_rows
from scots.reporting.quality import Quality, known_maze, with_position

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LATENTS = 2000  # states in the map of the latent space
NOVELTY_WEIGHTS = (0.0, 2.0, 20.0)  # those of the paper's Figure 3
_TRAJECTORIES = 8  # drawn as lines: more long ones would hide each other
_SHORT, _SHORT_TRAJECTORIES = 10, 300  # trajectories of fewer states are dots from above, so more are drawn
_MAP_STATES = 200_000  # drawn in each coverage map
_MAP_BINS = 120
_OFF_STATES = 20_000  # augmented states among which those off the data are drawn
_DIRECTIONS = 6
_STARTS = 1000  # walks among which those that start close together are looked for
_BEFORE, _AFTER, _INSIDE, _RECORDED = "#d1495b", "#2e6f95", "#8fbcd4", "#9aa5b1"
_CORNERS = ((0.20, 0.25, 0.65), (0.10, 0.65, 0.55), (0.85, 0.25, 0.35), (0.98, 0.80, 0.20))

CAPTIONS: dict[str, tuple[str, str]] = {
    "trajectories": (
        "Original and augmented trajectories",
        "Seen from above, with dots where they start. Original episodes are short; a stitched trajectory goes on from "
        "one recorded segment to the next.",
    ),
    "coverage": (
        "Coverage",
        "Share of the states in each small bin, on one colour scale for both. Positions that are filled on the left "
        "and blank on the right were lost.",
    ),
    "off-data": (
        "States off the data",
        "Augmented positions that are farther from every recorded path than held-out recorded ones are. They should be "
        "few, and nowhere dense: a band along the walls or between streets is what a planner would learn from.",
    ),
    "joins": (
        "Length of steps",
        "Before refinement, steps across joins are longer than others; after it they should look like steps inside "
        "segments.",
    ),
    "dynamics": (
        "Dynamic MSE",
        "Squared distance between each next state and where the simulator gets by the labelled action. Augmented steps "
        "should lie near recorded ones with labelled actions, and refined joins left of unrefined ones. By place "
        "in the segment, 0 is the join; where recorded states are kept with their actions, the curve falls to theirs.",
    ),
    "calibration": (
        "Latent distance and path length",
        "If the embedding has learned the maze, latent distance grows with the length of the shortest path.",
    ),
    "latents": (
        "The latent space",
        "The same states by position and by t-SNE of their latents, in the same colours. Positions whose colours stay "
        "together on the right are close in the embedding.",
    ),
    "novelty-weight": (
        "Progress against novelty",
        "The same starts and directions under three novelty weights, without refinement. With weight 0 only progress "
        "along the direction counts; a larger weight leads to positions that a trajectory has not visited.",
    ),
}
"""Title of each figure and what to look for in it, by the name of its file."""

_NOT_REFINED = {
    "joins": ("Length of steps", "The joins are not refined: steps across them are longer than those inside segments."),
}
"""The same where it is another for data that was not refined."""


def write_figures(
    data: Trajectories, aug: Trajectories, quality: Quality, folder: Path, encoder: StateEncoder | None = None
) -> list[Picture]:
    """Write every figure there is something to draw for, as PNG files in the folder."""
    pictures = []
    for name, figure in report_figures(data, aug, quality, encoder).items():
        caption = CAPTIONS[name] if quality.is_refined else _NOT_REFINED.get(name, CAPTIONS[name])
        pictures.append(Picture(folder / f"{name}.png", *caption))
        save_figure(figure, pictures[-1].path)
    return pictures


def report_figures(
    data: Trajectories, aug: Trajectories, quality: Quality, encoder: StateEncoder | None = None
) -> dict[str, Figure]:
    """Every figure there is something to draw for, by name. The encoder is the cached one unless it is given."""
    made, data = augmentation_of(data, aug), with_position(data, aug)
    encoder = encoder or made.encoder
    figures = {"trajectories": trajectories_figure(data, aug), "coverage": coverage_figure(data, aug)}
    if quality.on_data.off_positions > 0:
        figures["off-data"] = off_data_figure(data, aug)
    if quality.joins:
        figures["joins"] = joins_figure(quality.joins, quality.is_refined)
    if quality.dynamics:
        figures["dynamics"] = dynamics_figure(quality.dynamics, quality.is_refined)
    if quality.calibration:
        figures["calibration"] = calibration_figure(quality.calibration)
    if encoder:
        figures["latents"] = latents_figure(data, encoder)
    if made.walker:
        figures["novelty-weight"] = novelty_figure(data, made.walker)
    return figures


# ---------------------------------------------------------------------------------------------------------------- maps


def trajectories_figure(data: Trajectories, aug: Trajectories) -> Figure:
    """Some original episodes on the left, some augmented trajectories on the right."""
    figure, (left, right) = _panels(2, shared=True)
    columns = position_columns(data)[0][:2]
    for axes, part, label in ((left, data, "original"), (right, aug, "augmented")):
        few = np.median(part.lengths) >= _SHORT
        chosen = spread_out(part, _TRAJECTORIES if few else _SHORT_TRAJECTORIES)
        draw_episodes(axes, chosen, columns)
        axes.set_title(f"{len(chosen)} {label}, {np.median(chosen.lengths):,.0f} states each", fontsize=11)
    _finish_maps([left, right], data, columns)
    return _titled(figure, data.meta.dataset)


def coverage_figure(data: Trajectories, aug: Trajectories) -> Figure:
    """Where the states of the original and of the augmented data are, on one colour scale."""
    from matplotlib.colors import LogNorm

    figure, (left, right) = _panels(2, shared=True)
    columns = position_columns(data)[0][:2]
    samples = [_sample_points(part, columns) for part in (data, aug)]
    both = np.concatenate(samples)
    extent = [(float(low), float(high)) for low, high in zip(both.min(0), both.max(0), strict=True)]
    densities = [np.histogram2d(sample[:, 0], sample[:, 1], bins=_MAP_BINS, range=extent) for sample in samples]
    shares = [counts / counts.sum() for counts, _, _ in densities]
    norm = LogNorm(min(share[share > 0].min() for share in shares), max(share.max() for share in shares))
    for axes, share, (_, x, y), label in zip((left, right), shares, densities, ("original", "augmented"), strict=True):
        image = axes.pcolormesh(x, y, np.ma.masked_equal(share.T, 0), norm=norm, cmap="viridis", zorder=1)
        axes.set_title(label, fontsize=11)
    figure.colorbar(image, ax=[left, right], shrink=0.8, label="share of states in a bin")
    _finish_maps([left, right], data, columns)
    return _titled(figure, data.meta.dataset)


def _sample_points(data: Trajectories, columns: tuple[int, ...]) -> Array:
    rows = sample_rows(np.arange(data.rows), _MAP_STATES, np.random.default_rng(0))
    return points_of_rows(data, columns, rows)


def off_data_figure(data: Trajectories, aug: Trajectories) -> Figure:
    """Recorded positions, and the augmented ones among a sample that lie off them."""
    positions = tuple(range(len(data.meta.position)))
    manifold = Manifold.of(Trajectories(data.positions, data.offsets, meta=Meta(position=positions)))
    rows = sample_rows(np.arange(aug.rows), _OFF_STATES, np.random.default_rng(0))
    off = rows[~manifold.position_is_on(aug.observations[rows][:, list(data.meta.position)])]
    figure, (axes,) = _panels(1)
    columns = data.meta.position[:2]
    recorded = points_of_rows(data, columns, sample_rows(np.arange(data.rows), _OFF_STATES, np.random.default_rng(0)))
    axes.scatter(recorded[:, 0], recorded[:, 1], s=1.5, color=_INSIDE, linewidths=0, zorder=1, label="recorded")
    drawn, label = points_of_rows(aug, columns, off), f"augmented, off the data ({len(off) / len(rows):.1%})"
    axes.scatter(drawn[:, 0], drawn[:, 1], s=4, color=_BEFORE, linewidths=0, zorder=2, label=label)
    _finish_maps([axes], data, columns)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False, markerscale=3)
    return _titled(figure, f"{len(off):,} of {len(rows):,} augmented positions lie off the data")


def novelty_figure(data: Trajectories, walker: Walker) -> Figure:
    """The paper's Figure 3: the same starts and directions under three novelty weights, without refinement."""
    from matplotlib import colormaps

    columns, stitches = position_columns(data)[0][:2], walker.config.stitching.stitches
    starts = walker.rows(NOVELTY_WEIGHTS[0], 1, range(_STARTS))[:, 0]
    numbers = _close_together(data.observations[starts][:, list(columns)])
    figure, panels = _panels(len(NOVELTY_WEIGHTS), shared=True)
    for axes, weight in zip(panels, NOVELTY_WEIGHTS, strict=True):
        for colour, number in enumerate(numbers):
            rows = walker.rows(weight, stitches, range(number, number + 1))[0]
            path = points(data.observations[rows][:, list(columns)], np.arange(len(rows)))
            axes.plot(*path.T, color=colormaps["tab10"](colour), linewidth=1.1, alpha=0.85, zorder=2)
            axes.plot(*path[-1], "o", color=colormaps["tab10"](colour), markersize=6, markeredgecolor=INK, zorder=4)
            axes.plot(*path[0], "*", color="white", markersize=11, markeredgecolor=INK, zorder=3)
        axes.set_title(f"novelty weight {weight:g}", fontsize=11)
    _finish_maps(panels, data, columns)
    title = f"{len(numbers)} directions from one position, {stitches} segments each: stars start, dots end"
    return _titled(figure, title)


def _close_together(starts: Array) -> Array:
    """Numbers of the starts (N, P) that are nearest to the start in the middle of all (D,)."""
    middle = np.linalg.norm(starts - np.median(starts, axis=0), axis=1).argmin()
    return np.argsort(np.linalg.norm(starts - starts[middle], axis=1), kind="stable")[:_DIRECTIONS]


# -------------------------------------------------------------------------------------------------------------- latents


def latents_figure(data: Trajectories, encoder: StateEncoder) -> Figure:
    """Some states by position on the left, their latents by t-SNE on the right, in the same colours."""
    rows = sample_rows(np.arange(data.rows), LATENTS, np.random.default_rng(0))
    columns = position_columns(data)[0][:2]
    positions = points_of_rows(data, columns, rows)
    layout, colours = _layout(encoder, encoder.encode(data.observations[rows])), _colours(positions)
    figure, (left, right) = _panels(2)
    left.scatter(positions[:, 0], positions[:, 1], c=colours, s=7, zorder=2)
    left.set_title("position", fontsize=11)
    right.scatter(layout[:, 0], layout[:, 1], c=colours, s=7)
    right.set_title("t-SNE of the latents", fontsize=11)
    right.set_xticks([])
    right.set_yticks([])
    right.set_aspect("equal", adjustable="datalim")
    _finish_maps([left], data, columns)
    return _titled(figure, f"{len(rows):,} states of {data.meta.dataset or 'the data'}")


def _layout(encoder: StateEncoder, latents: Array) -> Array:
    """A layout of latents (N, Z) in the plane by t-SNE, from the mean of their distances both ways: (N, 2)."""
    from sklearn.manifold import TSNE

    distances = np.stack([encoder.distance(latent, latents) for latent in latents])
    tsne = TSNE(perplexity=min(30, (len(latents) - 1) / 3), metric="precomputed", init="random", random_state=0)
    return tsne.fit_transform((distances + distances.T) / 2)


def _colours(positions: Array) -> Array:
    """A colour for each position (N, 2) that changes evenly over the plane: a blend of four corner colours."""
    low, extent = positions.min(axis=0), np.ptp(positions, axis=0)
    right, up = ((positions - low) / np.where(extent > 0, extent, 1)).T
    weights = np.stack([(1 - right) * (1 - up), (1 - right) * up, right * (1 - up), right * up], axis=1)
    return np.clip(weights @ np.array(_CORNERS), 0, 1)


def calibration_figure(calibration: Calibration) -> Figure:
    """Latent distance against path length: its mean and the band from 10 to 90 %."""
    figure, (axes,) = _panels(1)
    axes.fill_between(calibration.path, calibration.low, calibration.high, color=_INSIDE, alpha=0.5, label="10 to 90 %")
    axes.plot(calibration.path, calibration.mean, color=_AFTER, linewidth=2, label="mean")
    axes.set_xlabel("length of the shortest path", color=INK)
    axes.set_ylabel("latent distance", color=INK)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=9, loc="upper left", frameon=False)
    _plain(axes)
    if calibration.near is None or calibration.all is None:
        return _titled(figure, "Latent distance and path length")
    return _titled(figure, f"Rank correlation {calibration.near:.3f} nearby, {calibration.all:.3f} for all pairs")


# ------------------------------------------------------------------------------------------------------ distributions


def dynamics_figure(dynamics: Dynamics, is_refined: bool = True) -> Figure:
    """Dynamic MSE of each kind of step that was measured and, if it is known, by place in the segment."""
    figure, panels = _panels(2 if dynamics.places else 1)
    _draw_kinds(panels[0], dynamics, "augmented, not at joins", is_refined)
    _finish_histogram(panels[0], "Dynamic MSE")
    if dynamics.places:
        _draw_places(panels[1], dynamics, is_refined)
    return _titled(figure, "Squared distance from where the simulator gets to the next state")


def _draw_places(axes: Axes, dynamics: Dynamics, is_refined: bool) -> None:
    """Medians by steps after the join, between those of unrefined joins and the floors of recorded steps."""
    label = f"augmented steps ({np.mean(dynamics.places):.2g} on average)"
    axes.plot(dynamics.places, "o-", color=_AFTER, markersize=4, linewidth=1.6, label=label, zorder=3)
    for field, colour, label in (
        ("unrefined_joins", _BEFORE, "joins before refinement"),
        ("relabelled", INK, "recorded, with labelled actions"),
        ("recorded", _RECORDED, "recorded"),
    ):
        if (found := getattr(dynamics, field)) is not None and (is_refined or field != "unrefined_joins"):
            axes.axhline(found.quantiles.median, color=colour, linestyle="--", linewidth=1.3, label=label)
    axes.set_yscale("symlog", linthresh=1e-6 * dynamics.one_step or 1e-12)  # kept steps have next to no error
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -1e-7 * dynamics.one_step), high * 100)  # room for the legend
    axes.set_xlabel("steps after the join", color=INK)
    axes.set_ylabel("median Dynamic MSE", color=INK)
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    _plain(axes)


def joins_figure(joins: Joins, is_refined: bool = True) -> Figure:
    """Lengths of steps at joins before and after refinement, and inside segments."""
    figure, panels = _panels(2)
    labels = ("length of the step in position", "length of the step in normalised state")
    for axes, steps, label in zip(panels, (joins.position, joins.state), labels, strict=True):
        _draw_kinds(axes, steps, "inside refined segments" if is_refined else "inside segments", is_refined)
        _finish_histogram(axes, label)
    return _titled(figure, f"Steps at {joins.count:,} joins and inside segments")


def _draw_kinds(axes: Axes, steps: StepLengths | Dynamics, inside: str, is_refined: bool) -> None:
    """A histogram for each kind of step: joins filled, others as outlines. Joins that are not refined are one kind."""
    before, after = ("joins before refinement", "joins after refinement") if is_refined else ("", "joins, not refined")
    for field, colour, filled, label in (
        ("unrefined_joins", _BEFORE, True, before),
        ("refined_joins", _AFTER, True, after),
        ("inside", _INSIDE, False, inside),
        ("generated", _INSIDE, False, "with a generated state, not at joins"),
        ("relabelled", INK, False, "recorded, with labelled actions"),
        ("recorded", _RECORDED, False, "recorded"),
    ):
        found: Distribution | None = getattr(steps, field, None)
        if label and found is not None and not (field == "inside" and getattr(steps, "generated", None)):
            label = f"{label} (median {found.quantiles.median:.2g})"
            style: dict[str, Any] = {"alpha": 0.6, "zorder": 2} if filled else {"linewidth": 1.8, "zorder": 3}
            shares = np.array(found.counts) / found.quantiles.count
            axes.stairs(shares, found.edges, fill=filled, color=colour, label=label, **style)


def _finish_histogram(axes: Axes, label: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(label, color=INK)
    axes.set_ylabel("share of steps", color=INK)
    top = axes.get_ylim()[1]
    axes.set_yticks([tick for tick in axes.get_yticks() if tick <= top])
    axes.set_ylim(0, top * 1.35)  # room for the legend
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    _plain(axes)


# -------------------------------------------------------------------------------------------------------------- parts


def _panels(count: int, shared: bool = False) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure  # the object interface: no display, no global state

    side = 6.5 if count < 3 else 4.6  # all pages are as wide: smaller panels keep the letters as large
    figure = Figure(figsize=(side * count, 0.86 * side), layout="compressed" if shared else "constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, count, sharex=shared, sharey=shared)))


def _finish_maps(panels: list[Axes], data: Trajectories, columns: tuple[int, ...]) -> None:
    for axes in panels:
        draw_maze(axes, known_maze(data))
        label_axes(axes, data, columns)
    for axes in panels[1:]:
        axes.set_ylabel("")  # as on the left


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e5e9ed", linewidth=0.7, zorder=0)
    axes.set_axisbelow(True)


def _titled(figure: Figure, title: str | None) -> Figure:
    figure.suptitle(title or "", fontsize=13)
    return figure
