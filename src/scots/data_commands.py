"""The commands below `scots data`: list, collect, download, tracks, convert, encode, inspect, expert."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg, subcommand

from scots.arguments import (
    DataFile,
    Folder,
    OptionalCount,
    OptionalDataFile,
    OptionalFigure,
    OptionalFile,
    Seed,
    Workers,
    default_profile,
)
from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.data.choices import Choices

DatasetId = Positional[Annotated[str, arg(metavar="ID")]]
DatasetName = Positional[Annotated[str, arg(metavar="DATA")]]


@dataclass(frozen=True)
class List:
    """List all datasets, known ones and your own: what is here and where it comes from, or what could be."""

    def run(self) -> None:
        """Print one line per dataset."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        from scots.datasets.loading import list_datasets

        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in ("dataset", "episodes", "states each", "MB", "present"):
            table.add_column(name, no_wrap=name != "present")
        for row in list_datasets():
            counts = ("-" if count is None else f"{count:,}" for count in (row.episodes, row.states))
            table.add_row(Text(row.id), *counts, f"{row.megabytes:,.1f}", Text(row.origin or "-"))
        Console(width=None if sys.stdout.isatty() else 120).print(table)


@dataclass(frozen=True)
class Collect:
    """Collect a dataset in the real simulator, with its -val twin. The same command continues after a kill."""

    id: DatasetId
    """Dataset id, such as pointmaze-giant-stitch-v0 or hopper-medium-v2 (an analogue of D4RL's)."""
    episodes: OptionalCount = None
    """Training episodes (default: the full size); validation gets a tenth. A part of a known dataset needs --out."""
    workers: Workers = None
    """Processes (default: all cores). The bytes do not depend on it."""
    seed: Seed = 0
    """Root seed; episode n depends on it and on n alone."""
    maze: Path | None = None
    """A text map of '#' and '.' with lines 'row,column -> row,column' for tasks; the id is yours to choose."""
    out: OptionalDataFile = None
    """File to write (default: in the data home)."""
    force: bool = False
    """Replace a file that is already there."""

    def run(self) -> None:
        """Collect and say where the file is."""
        from scots.core.files import check_input
        from scots.datasets import toy
        from scots.datasets.collect import collect
        from scots.datasets.loading import data_path, unknown_dataset
        from scots.datasets.specs import SPECS, custom_collection
        from scots.envs.maze import load_maze

        target = self.out or data_path(self.id)
        if self.maze:
            check_input(self.maze)
        maze = load_maze(self.maze) if self.maze else None
        if self.id == toy.ID and maze is None:
            self._check_place(toy.EPISODES)
            toy.write(target, toy.EPISODES if self.episodes is None else self.episodes, self.seed)
        else:
            spec = custom_collection(self.id) if maze else getattr(SPECS.get(self.id), "collection", None)
            if spec is None:
                raise unknown_dataset(self.id)
            if maze is None:
                self._check_place(spec.episodes)
            spec = spec.resized(self.episodes)
            collect(spec, target, maze=maze, workers=self.workers, seed=self.seed, force=self.force)
        print(target)

    def _check_place(self, published: int) -> None:
        """Refuse a part of a known dataset in the place of the whole, where everything would take it for that."""
        if self.out is None and self.episodes not in (None, published):
            part = f"{self.episodes:,} episodes are not {self.id}, which has {published:,}"
            raise BadInput(f"{part}; write them to a file of their own with --out FILE")


@dataclass(frozen=True)
class Download:
    """Download an original OGBench dataset, with its -val twin: mirrors, resume, checksums."""

    id: DatasetId
    """Dataset id."""
    offline: bool = False
    """Do not touch the network: succeed only if the file is here."""

    def run(self) -> None:
        """Download and say where the file is."""
        from scots.datasets.download import download
        from scots.datasets.loading import unknown_dataset
        from scots.datasets.specs import SPECS, MazeCollection

        collection = SPECS[self.id].collection if self.id in SPECS else None
        if collection is None:
            raise unknown_dataset(self.id)
        if not isinstance(collection, MazeCollection):
            ways = f"run `scots data collect {self.id}` or {collection.elsewhere}"
            raise BadInput(f"{self.id}: is not a dataset of OGBench; {ways}")
        print(download(self.id, offline=self.offline))


@dataclass(frozen=True)
class Tracks:
    """Make an example of own logs: CSV files of GPS-like tracks in a street network, at irregular times."""

    folder: Positional[Folder]
    """Folder to write; a folder that holds anything is never replaced."""
    files: int = 60
    """Tracks to make, one file each."""
    seed: Seed = 0
    """Seed of routes, times and noise."""

    def run(self) -> None:
        """Write the files and say what is in them."""
        from scots.datasets.streets import write_csv

        print(f"{self.folder}: {write_csv(self.folder, self.files, self.seed)}")


@dataclass(frozen=True)
class Convert:
    """Convert a dataset to another format, chosen by the name of the output."""

    source: DatasetName
    """Dataset id, file or folder."""
    target: Positional[Path]
    """File or folder to write: .npz (OGBench), .hdf5 (D4RL), .csv, .parquet, a folder."""
    format: str | None = None
    """Format by name, where the target's name does not say it."""
    geographic: bool = False
    """Write the position as latitude and longitude, for other programs; needs a .csv target."""
    columns: Choices = Choices()

    def run(self) -> None:
        """Convert and say what was written."""
        from scots.data import formats
        from scots.data.inspection import how_read
        from scots.datasets.loading import load_declared

        formats.check_target(self.target, self.format, geographic=self.geographic)
        data = load_declared(self.source, **self.columns.given())
        if texts := how_read(data.meta):
            print(_text(texts), file=sys.stderr)
        formats.write(data, self.target, self.format, geographic=self.geographic)
        print(f"{self.target}: {data}")


@dataclass(frozen=True)
class Encode:
    """Make states of logs with LiDAR scans: a beta-VAE is trained on them, and its latents take their place."""

    source: DatasetName
    """Dataset id, file or folder: ranges in columns SCAN_0, SCAN_1, ..., or in one column of lists (Parquet)."""
    target: Positional[DataFile]
    """File to write: states of latents and kept columns, with the episodes and actions of the logs."""
    scan: str = "ranges"
    """What the columns of a scan are called, before their number."""
    keep: str = ""
    """Columns to keep beside the latents, the position first: x,y,yaw."""
    set: tuple[str, ...] = ()
    """Settings of the encoder: PATH=VALUE, such as geometry.first_angle=0, geometry.angle_step=0.0087 or beta=2."""
    profile: Profile = field(default_factory=default_profile)
    """Scale: smoke trains for seconds."""
    columns: Choices = Choices()

    def run(self) -> None:
        """Encode and say what was written."""
        from scots.core.config import parse_changes
        from scots.data import formats
        from scots.data.choices import words
        from scots.datasets.encoding import SMOKE, encode_logs
        from scots.datasets.loading import load_declared

        changes = (SMOKE if self.profile == "smoke" else {}) | parse_changes(self.set)
        data = load_declared(self.source, finite=False, **self.columns.given())
        states = encode_logs(data, self.scan, tuple(words(self.keep)), changes)
        formats.write(states, self.target)
        print(f"{self.target}: {states}")


@dataclass(frozen=True)
class Inspect:
    """Look at any dataset: episodes, lengths, steps, gaps, extent, warnings, and a picture."""

    data: DatasetName
    """Dataset id, file or folder."""
    columns: Choices = Choices()
    png: OptionalFigure = None
    """Write a picture here."""
    json: bool = False
    """Print JSON instead of text."""
    keep: OptionalFile = None
    """Of data of a maze, add what it offers to stitching as a row to this JSONL file."""

    def run(self) -> None:
        """Print what was found."""
        from scots.core.files import append_rows
        from scots.core.versions import code_version, now
        from scots.data.inspection import inspect, position_columns
        from scots.datasets.loading import load_declared
        from scots.datasets.specs import segment_of
        from scots.reporting.maps import dataset_figure, save_figure
        from scots.reporting.recorded import Segments

        data = load_declared(self.data, finite=False, **self.columns.given())
        found, segments = inspect(data, horizon=segment_of(data)), Segments.of(data)
        facts = found.facts | (segments.facts() if segments else {})
        if self.keep and segments is None:
            raise BadInput(f"--keep: {self.data} is not of a maze, so there is no row to keep")
        if self.keep and segments:
            append_rows(self.keep, [segments.to_dict() | {"commit": code_version(), "date": now()}])
        if self.json:
            print(json.dumps({**facts, "warnings": found.warnings}, indent=1))
        else:
            print(_text(facts))
            for warning in found.warnings:
                print(f"warning: {warning}")
        if self.png:
            save_figure(dataset_figure(data, position_columns(data)[0], Path(self.data).stem), self.png)
            print(f"picture: {self.png}", file=sys.stderr)


@dataclass(frozen=True)
class Expert:
    """Train the policy that collects the data of a body, then measure it; or measure the shipped one."""

    name: Positional[Literal["ant", "hopper", "walker2d"]]
    """Which body. The same command continues the training of a hopper or walker2d after a kill."""
    steps: int | None = None
    """Environment steps of training (default: 400,000 for the ant; until it is medium for the others)."""
    seed: Seed = 0
    """Seed of training and measuring."""
    out: Path | None = None
    """Folder for what is trained (default: runs/NAME-expert)."""
    measure: bool = False
    """Only measure the policy that ships with the package."""
    episodes: int = 200
    """Episodes to measure over."""

    def run(self) -> None:
        """Train (unless only measuring), measure, print the figures."""
        from scots.datasets.experts import EXPERTS

        expert, folder = EXPERTS[self.name], None if self.measure else self.out or Path(f"runs/{self.name}-expert")
        if folder:
            expert.train(folder, self.steps, self.seed)
        print(_text(expert.measure(folder, self.episodes, self.seed)))


@dataclass(frozen=True)
class Data:
    """Read, check, convert, collect and picture trajectory data."""

    command: (
        Annotated[List, subcommand("list", prefix_name=False)]
        | Annotated[Collect, subcommand("collect", prefix_name=False)]
        | Annotated[Download, subcommand("download", prefix_name=False)]
        | Annotated[Tracks, subcommand("tracks", prefix_name=False)]
        | Annotated[Convert, subcommand("convert", prefix_name=False)]
        | Annotated[Encode, subcommand("encode", prefix_name=False)]
        | Annotated[Inspect, subcommand("inspect", prefix_name=False)]
        | Annotated[Expert, subcommand("expert", prefix_name=False)]
    )

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()


def _text(facts: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return "  ".join(f"{name} {shown(item)}" for name, item in value.items()) or "-"
        if isinstance(value, list):
            return ", ".join(shown(item) for item in value) or "-"
        if isinstance(value, float):
            return f"{value:.4g}"
        return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)

    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {shown(value)}" for name, value in facts.items())
