"""From scans to states, measured on logs of the robot: which beta, how alike far places look, and what that stitches.

    python benchmarks/scans.py beta navigation-corridor-v0 --png reconstructions.png --keep results/scans.jsonl
    python benchmarks/scans.py places navigation-corridor-latent-v0 navigation-corridor-pose-v0
    python benchmarks/scans.py joins navigation-corridor-pose-v0 augmented.npz --png stitched.png

beta: an encoder is trained for each value. A latent is active if its mean varies over scans (variance above 0.01); the
reconstruction is -log p(image | mean) in nats and the share of pixels on the wrong side. places: of the ten nearest
states of other episodes, each column in its standard deviations, how many are farther away than two metres. joins: how
far apart the places are at which the two states of a join were recorded; the picture has the way of some trajectories.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from scots.augmenters.embedding import RawState
from scots.core.config import parse_changes
from scots.core.files import append_rows
from scots.core.versions import code_version, now
from scots.data import formats
from scots.data.scans import ScanColumns
from scots.data.shards import validation_path
from scots.data.trajectories import Array, Meta, Trajectories
from scots.datasets import load
from scots.datasets.collect import collect
from scots.datasets.encoding import SMOKE, encoder_folder, train_scan_encoder
from scots.datasets.loading import data_path
from scots.datasets.specs import SPECS
from scots.envs.maze import maze_of
from scots.envs.navigation import SCAN
from scots.models.scan_encoder import ScanEncoder, ScanEncoderConfig
from scots.reporting.maps import draw_episodes, draw_maze, save_figure, spread_out

BETAS = (0.25, 1.0, 4.0, 16.0, 64.0)
ACTIVE = 0.01  # variance of the mean of an active latent
NEIGHBOURS, FAR = 10, 2.0  # metres
PLACES = 2000  # states whose neighbours are looked at
SHOWN = 8  # scans in the picture
HELD_OUT = 5000
RECORDED, WAYS = 200, 6  # episodes and trajectories in the picture


def encoder_of(logs: Trajectories, beta: float, changes: dict[str, Any]) -> ScanEncoder:
    """The encoder of a beta, from the cache or trained now."""
    config, columns = ScanEncoderConfig().replace_all({**changes, "beta": beta}), ScanColumns.named(logs.meta, SCAN)
    return train_scan_encoder(logs, config, columns, encoder_folder(config, columns, logs.fingerprint()))


@torch.inference_mode()
def measure(encoder: ScanEncoder, scans: Array) -> dict[str, float]:
    """Active latents and quality of the reconstruction from the mean, on scans (N, R)."""
    images = torch.from_numpy(encoder.images(scans))
    mean, log_variance = encoder.posterior(images)
    decoded = encoder.decoder(mean)
    nats = functional.binary_cross_entropy_with_logits(decoded, images, reduction="sum") / len(images)
    return {
        "active": int((mean.var(0) > ACTIVE).sum()),
        "nats": round(float(nats), 1),
        "wrong_pixels": round(float(((decoded > 0) != (images > 0.5)).float().mean()), 5),
        "posterior_deviation": round(float((log_variance / 2).exp().mean()), 4),
    }


def study_betas(
    logs: Trajectories, held_out: Trajectories, changes: dict[str, Any], png: Path | None
) -> list[dict[str, Any]]:
    """A row for every beta, and a picture of scans with what is left of them."""
    columns = ScanColumns.named(logs.meta, SCAN)
    rng = np.random.default_rng(0)
    rows = rng.permutation(held_out.rows)[:HELD_OUT]
    scans = columns.scans(held_out.observations[np.sort(rows)])
    found, encoders = [], {}
    for beta in BETAS:
        begin = time.process_time()
        encoders[beta] = encoder_of(logs, beta, changes)
        minutes = round((time.process_time() - begin) / 60, 2)
        training = encoders[beta].config.training
        cost = {"steps": training.steps, "batch": training.batch_size, "minutes": minutes}
        found.append({"study": "beta", "beta": beta, **cost, **measure(encoders[beta], scans)})
    if png:
        save_figure(reconstructions(encoders, scans[:: max(1, len(scans) // SHOWN)][:SHOWN]), png)
    return found


def reconstructions(encoders: dict[float, ScanEncoder], scans: Array) -> Any:
    """Scans in the first row, and below what each encoder makes of them."""
    from matplotlib.figure import Figure

    images = {"scan": next(iter(encoders.values())).images(scans)[:, 0]}
    images |= {f"beta {beta:g}": encoder.decode(encoder.encode(scans)) for beta, encoder in encoders.items()}
    figure = Figure(figsize=(1.5 * len(scans), 1.55 * len(images)), layout="constrained")
    panels = figure.subplots(len(images), len(scans), squeeze=False)
    for line, (label, row) in zip(panels, images.items(), strict=True):
        line[0].set_ylabel(label)
        for axes, image in zip(line, row, strict=True):
            axes.imshow(image, origin="lower", cmap="gray_r", vmin=0, vmax=1)
            axes.set_xticks([])
            axes.set_yticks([])
    return figure


def look_alikes(data: Trajectories) -> dict[str, float]:
    """How far away the states are that look most alike."""
    assert data.qpos is not None
    rng, states = np.random.default_rng(0), RawState(data).encode(data.observations)
    chosen, far, gaps = rng.integers(data.rows, size=PLACES), [], []
    episodes = data.episode_of(np.arange(data.rows))
    for row in chosen:
        distance = np.square(states - states[row]).sum(axis=1)
        distance[episodes == episodes[row]] = np.inf
        near = np.argpartition(distance, NEIGHBOURS)[:NEIGHBOURS]
        gap = np.linalg.norm(data.qpos[near] - data.qpos[row], axis=1)
        far.append(float((gap > FAR).mean()))
        gaps.append(float(np.median(gap)))
    return {"far": round(float(np.mean(far)), 4), "median_metres": round(float(np.median(gaps)), 3)}


def joins(data: Trajectories, augmented: Trajectories, png: Path | None) -> dict[str, float]:
    """How far the robot was carried at joins, by where the states on both sides were recorded."""
    assert data.qpos is not None
    assert augmented.source is not None
    transitions = augmented.window_starts(2)
    before, after = augmented.source[transitions], augmented.source[transitions + 1]
    jumps = np.flatnonzero(after != before + 1)
    gaps = np.linalg.norm(data.qpos[after[jumps]] - data.qpos[before[jumps]], axis=1)
    if png:
        save_figure(ways(data, augmented), png)
    return {
        "joins": len(gaps),
        "far": round(float((gaps > FAR).mean()), 4),
        "median_metres": round(float(np.median(gaps)), 3),
    }


def ways(data: Trajectories, augmented: Trajectories) -> Any:
    """Recorded episodes, and some stitched trajectories by where their states were recorded, over the floor plan."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6), layout="constrained")
    stitched = spread_out(augmented, WAYS)
    for axes, shown, rows, title in zip(
        figure.subplots(1, 2),
        (spread_out(data, RECORDED), stitched),
        (None, stitched.source),
        ("recorded episodes", "stitched trajectories"),
        strict=True,
    ):
        assert data.qpos is not None
        assert shown.qpos is not None or rows is not None
        places = shown.qpos if rows is None else data.qpos[rows]
        draw_maze(axes, maze_of(data.meta))
        draw_episodes(axes, replace(shown, observations=places, meta=Meta()), (0, 1))
        axes.set_aspect("equal")
        axes.set_title(f"{len(shown)} {title}")
    figure.suptitle(data.meta.dataset)
    return figure


def small_logs(folder: Path) -> tuple[Trajectories, Trajectories]:
    """A few episodes, only to see that it runs."""
    collection = SPECS["navigation-corridor-v0"].collection
    assert collection is not None
    path = collect(collection.resized(4), folder / "logs.npz", workers=1)
    return formats.read(path), formats.read(validation_path(path))


def smoke() -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        os.environ["SCOTS_HOME"] = folder
        logs, held_out = small_logs(Path(folder))
        found = study_betas(logs, held_out, SMOKE, None)
        positions = logs.positions
        own = replace(
            logs, observations=positions, qpos=positions, meta=replace(logs.meta, columns=(), position=(), angles=())
        )
        source = np.concatenate([np.arange(*own.offsets[[episode, episode + 1]]) for episode in (0, 2)])
        stitched = Trajectories(positions[source], np.array([0, len(source)]), source=source)
        measured = {"places": look_alikes(own), "joins": joins(own, stitched, None)}
        return [*found, *({"study": study, "dataset": "positions", **row} for study, row in measured.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    parser.add_argument("study", nargs="?", choices=("beta", "places", "joins"))
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--set", nargs="*", default=(), help="settings of the encoders: PATH=VALUE")
    parser.add_argument("--png", type=Path)
    parser.add_argument("--keep", type=Path, help="add the rows to this JSONL file")
    options = parser.parse_args()
    if options.smoke:
        rows = smoke()
    elif options.study == "beta":
        [dataset] = options.datasets
        path = Path(dataset) if Path(dataset).exists() else data_path(dataset)
        logs, held_out = load(path), formats.read(validation_path(path))
        studied = study_betas(logs, held_out, parse_changes(options.set), options.png)
        rows = [{"dataset": logs.meta.dataset, "scans": logs.rows, **row} for row in studied]
    elif options.study == "joins":
        name, augmented = options.datasets
        rows = [{"study": "joins", "dataset": name, **joins(load(name), formats.read(Path(augmented)), options.png)}]
    else:
        rows = [{"study": "places", "dataset": name, **look_alikes(load(name))} for name in options.datasets]
    rows = [{**row, "commit": code_version(), "date": now()} for row in rows]
    for row in rows:
        print(json.dumps(row))
    if options.keep:
        append_rows(options.keep, rows)


if __name__ == "__main__":
    main()
