"""The command line: parses, calls, prints. `scots --help`."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg, subcommand

from scots.core.errors import BadInput

DatasetId = Positional[Annotated[str, arg(metavar="ID")]]
DatasetName = Positional[Annotated[str, arg(metavar="DATA")]]


@dataclass(frozen=True)
class Doctor:
    """Check the installation: versions, devices, rendering, caches, what is missing, what to try next."""

    def run(self) -> None:
        """Print the table and the next command."""
        from rich.console import Console

        from scots import doctor

        output = Console()
        output.print(doctor.report(doctor.examine()))
        output.print(f"try next: [bold]{doctor.next_command()}[/bold]")


@dataclass(frozen=True)
class List:
    """List all datasets: size, whether present, and whether downloaded or collected here."""

    def run(self) -> None:
        """Print one line per dataset."""
        from rich.console import Console
        from rich.table import Table

        from scots import datasets as sources

        table = Table("dataset", "episodes", "states each", "MB", "present", box=None, header_style="bold")
        for row in sources.list_datasets():
            table.add_row(row.id, f"{row.episodes:,}", f"{row.states:,}", f"{row.megabytes:,.1f}", row.origin or "-")
        Console(width=None if sys.stdout.isatty() else 100).print(table)


@dataclass(frozen=True)
class Collect:
    """Collect a maze dataset in the real simulator, with its -val twin. The same command continues after a kill."""

    id: DatasetId
    """Dataset id, such as pointmaze-giant-stitch-v0."""
    episodes: int | None = None
    """Training episodes (default: the full size); validation gets a tenth."""
    workers: int | None = None
    """Processes (default: all cores). The bytes do not depend on it."""
    seed: int = 0
    """Root seed; episode n depends on it and on n alone."""
    maze: Path | None = None
    """A text map of '#' and '.' with lines 'row,column -> row,column' for tasks; replaces the id's maze."""
    out: Path | None = None
    """File to write (default: in the data home)."""
    force: bool = False
    """Replace a file that is already there."""

    def run(self) -> None:
        """Collect and say where the file is."""
        from scots import datasets as sources
        from scots.data import formats
        from scots.datasets import collect
        from scots.envs import ogbench, toy
        from scots.envs.maze import load_maze

        maze = load_maze(self.maze) if self.maze else None
        if maze is None and self.id not in sources.known_ids():
            raise sources.unknown_dataset(self.id)
        if self.id == toy.ID:
            target = self.out or sources.data_path(toy.ID)
            formats.write(toy.make(self.episodes or toy.EPISODES, self.seed), target)
        else:
            protocol = ogbench.custom_protocol(self.id, maze) if maze else ogbench.PROTOCOLS[self.id]
            target = self.out or sources.data_path(protocol.id)
            protocol = ogbench.with_episodes(protocol, self.episodes)
            collect.collect(protocol, target, maze=maze, workers=self.workers, seed=self.seed, force=self.force)
        print(target)


@dataclass(frozen=True)
class Download:
    """Download an original OGBench dataset, with its -val twin: mirrors, resume, checksums."""

    id: DatasetId
    """Dataset id."""
    offline: bool = False
    """Do not touch the network: succeed only if the file is here."""

    def run(self) -> None:
        """Download and say where the file is."""
        from scots import datasets as sources
        from scots.datasets.download import download
        from scots.envs.ogbench import PROTOCOLS

        if self.id not in PROTOCOLS:
            raise sources.unknown_dataset(self.id)
        print(download(self.id, offline=self.offline))


@dataclass(frozen=True)
class Convert:
    """Convert a dataset to another format, chosen by the name of the output."""

    source: DatasetName
    """Dataset id, file or folder."""
    target: Positional[Path]
    """File or folder to write: .npz (OGBench), .hdf5 (D4RL), .csv, .parquet, a folder."""
    format: str | None = None
    """Format by name, where the target's name does not say it."""

    def run(self) -> None:
        """Convert and say what was written."""
        from scots import datasets as sources
        from scots.data import formats

        data = sources.load(self.source)
        formats.write(data, self.target, self.format)
        print(f"{self.target}: {data}")


@dataclass(frozen=True)
class Inspect:
    """Look at any dataset: episodes, lengths, steps, gaps, extent, warnings, and a picture."""

    data: DatasetName
    """Dataset id, file or folder."""
    position: str | None = None
    """Observation columns that are a place, by name or number: x,y or 0,1."""
    png: Path | None = None
    """Write a picture here."""
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> None:
        """Print what was found."""
        from scots import datasets as sources
        from scots.data import inspection as analysis
        from scots.reporting.maps import dataset_figure, save_figure

        data = sources.load(self.data, finite=False)
        found = analysis.inspect(data, self.position)
        if self.json:
            print(json.dumps({**found.facts, "warnings": found.warnings}, indent=1))
        else:
            print(_text(found.facts))
            for warning in found.warnings:
                print(f"warning: {warning}")
        if self.png:
            columns = analysis.position_columns(data, self.position)[0]
            save_figure(dataset_figure(data, columns, Path(self.data).stem), self.png)
            print(f"picture: {self.png}", file=sys.stderr)


@dataclass(frozen=True)
class Expert:
    """Train the directional expert that collection needs, then measure it; or measure the shipped one."""

    name: Positional[Literal["ant"]]
    """Which expert."""
    steps: int = 400_000
    """Environment steps of training."""
    seed: int = 0
    """Seed of training and measuring."""
    out: Path = Path("runs/ant-expert")
    """Folder for the trained actor."""
    measure: bool = False
    """Only measure the actor that ships with the package."""
    episodes: int = 200
    """Episodes to measure over."""

    def run(self) -> None:
        """Train (unless only measuring), measure, print the figures."""
        from scots.datasets import experts

        if not self.measure:
            experts.train_ant(self.out, self.steps, self.seed)
        folder = experts.SHIPPED if self.measure else self.out
        print(_text(experts.measure_ant(folder, self.episodes, self.seed)))


@dataclass(frozen=True)
class Augment:
    """Stitch the short trajectories of a dataset into long, diverse ones. The same command continues after a kill."""

    data: DatasetName
    """Dataset id, file or folder."""
    out: Path
    """File to write; its -val twin is written beside it."""
    profile: Literal["smoke", "laptop", "paper"] = "laptop"
    """Scale: seconds, under an hour on two cores, or the paper's own (a GPU)."""
    recipe: Literal["paper", "official"] = "official"
    """Where the paper's text and its official code differ, which one to follow."""
    trajectories: int | None = None
    """Trajectories to compose (default: about 5 million states in all); validation gets a tenth more."""
    stitches: int | None = None
    """Segments per trajectory (default: 80 for giant mazes and explore data, else 40)."""
    segment: int | None = None
    """States per segment (default: 26)."""
    beta: float | None = None
    """Weight of novelty against progress (default: 2)."""
    candidates: int | None = None
    """Nearest segments that are scored at each stitch (default: 10)."""
    min_displacement: float | Literal["auto"] | None = None
    """Drop segments whose ends are closer than this (default: 2 in mazes, otherwise none; auto: by quantile)."""
    distinct_episodes: bool = False
    """Take candidates from as many source episodes as possible: neighbouring windows of one are nearly the same."""
    refine: bool = True
    """Regenerate what lies between segment ends with the diffusion stitcher."""
    encoder: Literal["temporal", "raw"] = "temporal"
    """Search in the temporal-distance embedding, or in raw states (the ablation)."""
    position: str | None = None
    """Observation columns that are a place, by name or number, where the data does not say: x,y or 0,1."""
    workers: int | None = None
    """Processes (default: all cores). The bytes do not depend on it."""
    seed: int = 0
    """Seed of training and stitching."""

    def run(self) -> None:
        """Augment and say what was written."""
        from scots import datasets as sources
        from scots.augmenters import scots as augmentation
        from scots.data import inspection as analysis

        data = sources.load(self.data)
        data = data.but_meta(position=analysis.position_columns(data, self.position)[0])
        config = augmentation.configure(data, self.profile, self.recipe)
        changes = {
            "trajectories": self.trajectories,
            "stitching.stitches": self.stitches,
            "stitching.novelty_weight": self.beta,
            "stitching.candidates": self.candidates,
            "stitching.min_displacement": self.min_displacement,
            "stitching.distinct_episodes": self.distinct_episodes,
            "refine": self.refine,
            "encoder": self.encoder,
        }
        config = config.changed({path: value for path, value in changes.items() if value is not None})
        if self.segment is not None:
            config = config.with_segment(self.segment)
        print(augmentation.augment(data, config, seed=self.seed, out=self.out, workers=self.workers))


@dataclass(frozen=True)
class Report:
    """Measure augmented data against the data it was made from: numbers, pictures, and a page that shows both."""

    data: DatasetName
    """The original: dataset id, file or folder."""
    aug: Positional[Annotated[str, arg(metavar="AUG")]]
    """The augmented data: dataset id, file or folder."""
    out: Path
    """Folder for report.html, report.json and the pictures."""
    keep: Path | None = None
    """Add the headline numbers as one line to this JSONL file."""

    def run(self) -> None:
        """Print the numbers, write the folder."""
        from scots import datasets as sources
        from scots.core.files import append_rows, write_text
        from scots.reporting.plots import write_figures
        from scots.reporting.quality import measure_quality
        from scots.reporting.quality_document import next_commands, quality_document, quality_row

        data, aug = sources.load(self.data), sources.load(self.aug)
        found = measure_quality(data, aug)
        write_text(self.out / "report.json", found.to_json())
        pictures, page = write_figures(data, aug, found, self.out), self.out / "report.html"
        document = quality_document(found, pictures, next_commands(self.data, self.aug, aug.meta), self.data)
        document.write_html(page)
        print(document.text())
        if self.keep:
            append_rows(self.keep, [quality_row(found)])
        print(f"report: {page}", file=sys.stderr)


@dataclass(frozen=True)
class Train:
    """Train a planner or an agent on a dataset, original or augmented. The same command continues after a kill."""

    learner: Positional[Literal["hd", "gciql", "crl"]]
    """What to train: the planner hd, or an agent."""
    data: Annotated[str, arg(metavar="DATA")]
    """Dataset id, file or folder."""
    out: Path
    """Folder for the trained model."""
    profile: Literal["smoke", "laptop", "paper"] = "laptop"
    """Scale: seconds, under an hour on two cores, or the paper's own (a GPU)."""
    position: str | None = None
    """Observation columns that are a place, by name or number, where the data does not say: x,y or 0,1."""
    seed: int = 0
    """Seed of training."""

    def run(self) -> None:
        """Train and say where the model is."""
        from scots import datasets as sources
        from scots.data import inspection as analysis
        from scots.experiments import pipeline as experiments

        data = sources.load(self.data)
        data = data.but_meta(position=analysis.position_columns(data, self.position)[0])
        experiments.train_learner(self.learner, data, self.profile, self.seed, self.out)
        print(self.out)


@dataclass(frozen=True)
class Evaluate:
    """Run a trained planner or agent on the tasks of its environment and count successes."""

    model: Positional[Annotated[Path, arg(metavar="DIR")]]
    """Folder of a trained planner or agent."""
    controller: Path | None = None
    """Folder of the agent that follows the plans of a planner."""
    dataset: str | None = None
    """Dataset id that the model was trained on (default: what it remembers)."""
    tasks: tuple[int, ...] = ()
    """Tasks by number (default: all)."""
    episodes: int = 50
    """Episodes of each task."""
    max_steps: int | None = None
    """Steps of an episode (default: report OGBench's limit and that of the paper's reference code)."""
    replan: int | None = None
    """Environment steps from plan to plan; 0 plans only once (default: as the reference code for the dataset)."""
    lookahead: int | None = None
    """Steps of the plan from one subgoal to the next (default: as the reference code for the dataset)."""
    candidates: int | None = None
    """Plans drawn at a time, of which the easiest is followed (default: as the profile of the planner says)."""
    embedding: Path | None = None
    """Folder of the embedding that ranks them (default: the one the planner's data was stitched by, if it is kept)."""
    seed: int = 0
    """Seed of starts and goals, and of what the planner draws."""
    workers: int | None = None
    """Processes that hold environments (default: all cores). The successes do not depend on it."""
    keep: Path | None = None
    """Add the rows to this JSONL file."""
    png: Path | None = None
    """Draw one episode of every task from above: the plan, the subgoals and the path taken."""
    video: Path | None = None
    """Write a video of the same episodes: .gif, or .mp4 where ffmpeg is installed."""

    def run(self) -> None:
        """Print success per task, and keep the rows."""
        from scots.core.files import append_rows
        from scots.envs.vector import chosen_tasks, tasks_of
        from scots.evaluation.rollout import step_limits
        from scots.experiments.pipeline import Trained
        from scots.reporting import rollouts
        from scots.reporting.maps import save_figure
        from scots.reporting.success import success_table

        if self.video:
            rollouts.video_writer(self.video)  # or say now that it cannot be written
        settings = {"replan_every": self.replan, "lookahead": self.lookahead, "candidates": self.candidates}
        chosen = {name: value for name, value in settings.items() if value is not None}
        models = Trained.load(self.model, self.controller, self.embedding, dataset=self.dataset, settings=chosen)
        meta = models.meta
        tasks = chosen_tasks(meta, self.tasks) if self.tasks else tasks_of(meta)
        limits = step_limits(meta.dataset) if self.max_steps is None else (self.max_steps,)
        rows = models.evaluate(tasks, episodes=self.episodes, limits=limits, seed=self.seed, workers=self.workers)
        print(success_table(rows).text())
        if self.keep:
            append_rows(self.keep, [row.to_dict() for row in rows])
        if self.png or self.video:
            recorded = rollouts.record(models.controller, meta, tasks, max_steps=limits[-1], seed=self.seed)
        if self.png:
            save_figure(rollouts.rollouts_figure(recorded, meta), self.png)
        if self.video:
            rollouts.write_video(recorded, meta, self.video)


@dataclass(frozen=True)
class FillTable:
    """Make a table of the paper: collect, augment, train, evaluate what is missing, then print ours beside theirs."""

    name: Positional[Annotated[str, arg(metavar="NAME")]]
    """planning, replanning, candidates or controller_horizon."""
    datasets: tuple[str, ...] = ()
    """Only these datasets (default: all of the table)."""
    columns: tuple[str, ...] = ()
    """Only these columns (default: all that can be made here)."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the evaluation."""
    training_seed: int = 0
    """Seed of all that is stitched and trained before it; the recorded data is the same."""
    profile: Literal["smoke", "laptop", "paper"] = "laptop"
    """Scale: seconds, about an hour a dataset on two cores, or the paper's own (a GPU)."""
    dry_run: bool = False
    """Only print the work that is left, with the time it should take."""
    keep: Path | None = None
    """Add the rows that are not there yet to this JSONL file, run by run."""

    def run(self) -> None:
        """Print the work list or the table."""
        from scots.experiments import tables
        from scots.reporting.rows import append_new_rows
        from scots.reporting.success import comparison_table

        table = tables.table_of(self.name)
        runs = table.runs(self.datasets, self.columns, self.seeds, self.training_seed, self.profile)
        if self.dry_run:
            print(tables.work_list(runs))
            return
        rows = []
        for done in tables.fill(runs):
            own = [row.to_dict() for row in done]
            rows += own
            if self.keep:  # at once: a table takes hours
                append_new_rows(self.keep, own)
        print(comparison_table(table, rows).text())


@dataclass(frozen=True)
class Data:
    """Read, check, convert, collect and picture trajectory data."""

    command: (
        Annotated[List, subcommand("list", prefix_name=False)]
        | Annotated[Collect, subcommand("collect", prefix_name=False)]
        | Annotated[Download, subcommand("download", prefix_name=False)]
        | Annotated[Convert, subcommand("convert", prefix_name=False)]
        | Annotated[Inspect, subcommand("inspect", prefix_name=False)]
        | Annotated[Expert, subcommand("expert", prefix_name=False)]
    )

    def run(self) -> None:
        """Run the chosen command."""
        self.command.run()


Command = (
    Annotated[Data, subcommand("data", prefix_name=False)]
    | Annotated[Augment, subcommand("augment", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Evaluate, subcommand("evaluate", prefix_name=False)]
    | Annotated[FillTable, subcommand("table", prefix_name=False)]
    | Annotated[Report, subcommand("report", prefix_name=False)]
    | Annotated[Doctor, subcommand("doctor", prefix_name=False)]
)


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


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 a failure of ours, 2 bad input."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    description = "State-covering trajectory stitching: short logs in, long and diverse trajectories out. "
    try:
        command = tyro.cli(
            Command,
            prog="scots",
            args=words,
            config=(OmitArgPrefixes,),
            description=description + "Add --debug to any command for a full traceback.",
        )
        command.run()
        return 0
    except BadInput as error:
        return _fail(f"scots: {error}", debug, 2)
    except KeyboardInterrupt:
        return _fail("scots: stopped; the same command continues where it can", debug, 130)
    except Exception as error:
        return _fail(f"scots: this is a failure of ours: {type(error).__name__}: {error} (--debug for more)", debug, 1)


def _fail(message: str, debug: bool, code: int) -> int:
    if debug:
        traceback.print_exc()
    print(" ".join(message.split()), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
