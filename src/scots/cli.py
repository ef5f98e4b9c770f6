"""The command line: parses, calls, prints. `scots --help`."""

from __future__ import annotations

import os
import select
import shlex
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg, subcommand

from scots import __version__
from scots.app_command import App
from scots.arguments import (
    DataFile,
    Folder,
    OptionalCount,
    OptionalFigure,
    OptionalFile,
    Seed,
    Seeds,
    Workers,
    check_arguments,
    check_words,
    default_profile,
)
from scots.core.config import Profile
from scots.core.errors import BadInput
from scots.data.choices import Choices
from scots.data_commands import Data, DatasetName
from scots.models.logs import Log, log_to
from scots.plan_command import PlanPaths

if TYPE_CHECKING:
    from scots.data.trajectories import Meta
    from scots.envs.base import Task
    from scots.reporting.augmentation import AugmentationSettings


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
class Augment:
    """Augment a dataset: short trajectories in, long and diverse ones out. The same command continues after a kill."""

    data: DatasetName
    """Dataset id, file or folder."""
    out: DataFile
    """File to write; its -val twin is written beside it."""
    augmenter: str = "scots"
    """Which augmenter: scots follows the official code, scots-paper the paper's text; a wrong name lists all."""
    profile: Profile = field(default_factory=default_profile)
    """Scale: seconds, under an hour on two cores, or the paper's own (a GPU)."""
    trajectories: OptionalCount = None
    """Trajectories to make (default: 5 million states, of little own data fewer); validation gets a tenth."""
    stitches: int | None = None
    """Segments per trajectory (default: 80 for giant mazes and explore data, else 40; own data: to reach across it)."""
    segment: int | None = None
    """States per segment (default: 26; own data: fewer, where its episodes are too short for two)."""
    beta: float | None = None
    """Weight of novelty against progress (default: 2)."""
    candidates: int | None = None
    """Nearest segments that are scored at each stitch (default: 10)."""
    min_displacement: float | Literal["auto"] | None = None
    """Drop segments whose ends are closer than this (default: 2 in mazes, otherwise none; auto: by quantile)."""
    distinct_episodes: bool = False
    """Take candidates from as many source episodes as possible: neighbouring windows of one are nearly the same."""
    refine: bool = True
    """Regenerate the states between segment ends with the diffusion stitcher."""
    encoder: str | None = None
    """Search in the temporal-distance embedding (default), or in raw states (the ablation)."""
    set: tuple[str, ...] = ()
    """Any other setting of the augmenter: PATH=VALUE, such as embedding.training.steps=2000."""
    columns: Choices = Choices()
    log: Log = "tensorboard"
    """Where metrics of training go, beside metrics.jsonl; none writes neither."""
    workers: Workers = None
    """Processes (default: all cores). The bytes do not depend on it."""
    seed: Seed = 0
    """Seed of training and stitching."""
    force: bool = False
    """Replace a file that is already there."""

    def run(self) -> None:
        """Augment and say what was written."""
        from scots.core.config import parse_changes
        from scots.core.console import console
        from scots.core.locks import locked
        from scots.data.inspection import inspect
        from scots.data.shards import remove_dataset
        from scots.datasets import load
        from scots.datasets.specs import segment_of
        from scots.experiments.models import augment

        flags = {
            "trajectories": self.trajectories,
            "stitching.stitches": self.stitches,
            "stitching.segment": self.segment,
            "stitching.novelty_weight": self.beta,
            "stitching.candidates": self.candidates,
            "stitching.min_displacement": self.min_displacement,
            "stitching.distinct_episodes": self.distinct_episodes or None,
            "refine": None if self.refine else False,
            "encoder": self.encoder,
        }
        changes = {path: value for path, value in flags.items() if value is not None} | parse_changes(self.set)
        data = load(self.data, **self.columns.given())
        for warning in inspect(data, horizon=self.segment or segment_of(data)).warnings:
            console.print(f"warning: {warning}", markup=False, highlight=False, soft_wrap=True)
        if self.force and Path(self.data).resolve() == self.out.resolve():
            raise BadInput(f"{self.out}: is the data to augment; write to another file")
        options: dict[str, Any] = {"seed": self.seed, "out": self.out, "workers": self.workers}
        with log_to(self.log), locked(self.out):
            if self.force:
                remove_dataset(self.out)
            print(augment(data, self.augmenter, self.profile, changes, **options))


@dataclass(frozen=True)
class Report:
    """Measure augmented data against the data it was made from: numbers, pictures, and a page that shows both."""

    data: DatasetName
    """The original: dataset id, file or folder."""
    aug: Positional[Annotated[str, arg(metavar="AUG")]]
    """The augmented data: dataset id, file or folder."""
    out: Folder
    """Folder for report.html, report.json and the pictures."""
    keep: OptionalFile = None
    """Add the headline numbers as one line to this JSONL file."""
    columns: Choices = Choices()
    """How to read the original, where that is not as it was when it was augmented."""

    def run(self) -> None:
        """Print the numbers, write the folder."""
        from scots.core.files import append_rows, write_text
        from scots.datasets.loading import load, load_original
        from scots.reporting.plots import write_figures
        from scots.reporting.quality import measure_quality
        from scots.reporting.quality_document import next_commands, quality_document, quality_row

        aug = load(self.aug)
        data, choices = load_original(self.data, aug.meta, **self.columns.given())
        found = measure_quality(data, aug)
        write_text(self.out / "report.json", found.to_json())
        pictures, page = write_figures(data, aug, found, self.out), self.out / "report.html"
        commands = next_commands(self.data, self.aug, aug.meta)
        document = quality_document(found, pictures, commands, self.data, self._made_by(found.augmentation, choices))
        document.write_html(page)
        print(document.text())
        if self.keep:
            append_rows(self.keep, [quality_row(found)])
        print(f"report: {page}", file=sys.stderr)

    def _made_by(self, settings: AugmentationSettings, choices: dict[str, Any]) -> list[str]:
        """The commands that make the data and this report."""
        from scots.data.choices import flags_of
        from scots.reporting.augmentation import augment_command

        augment = augment_command(self.data, settings, self.aug)
        augment = f"{augment} {flags_of(choices)}".rstrip() if augment else None
        report = shlex.join(["scots", "report", self.data, self.aug, "--out", str(self.out)])
        return [*([augment] if augment else []), report]


@dataclass(frozen=True)
class Train:
    """Train a planner or an agent on a dataset, recorded or augmented. The same command continues after a kill."""

    model: Positional[Annotated[str, arg(metavar="MODEL")]]
    """What to train: a planner or an agent by name, such as hd or gciql; a wrong name lists all."""
    data: Annotated[str, arg(metavar="DATA")]
    """Dataset id, file or folder."""
    out: Folder
    """Folder for the trained model."""
    profile: Profile = field(default_factory=default_profile)
    """Scale: seconds, under an hour on two cores, or the paper's own (a GPU)."""
    recorded: Annotated[str | None, arg(metavar="DATA")] = None
    """The data that was augmented: a planner then saves what plan search needs of it (default: from the cache)."""
    set: tuple[str, ...] = ()
    """Settings that are not the profile's: PATH=VALUE, such as training.batch_size=64."""
    alone: bool = False
    """Train an agent to act by itself: values must reach far. Only gciql, crl and gcbc follow plans otherwise."""
    steps: int | None = None
    """Steps of training (default: the profile's)."""
    minutes: float | None = None
    """End training after so many minutes; the model is usable, and the same command continues it."""
    log: Log = "tensorboard"
    """Where metrics go, beside metrics.jsonl; none writes neither."""
    columns: Choices = Choices()
    """How to read --recorded, or without it --data; what was chosen when it was augmented is chosen again."""
    seed: Seed = 0
    """Seed of training."""
    force: bool = False
    """Train again where the folder holds a finished model."""

    def run(self) -> None:
        """Train and say where the model is."""
        from scots.core.config import parse_changes
        from scots.datasets.loading import is_augmented, load, load_original
        from scots.experiments.models import train_model
        from scots.models.training import Limits

        given = self.columns.given()
        data = load(self.data, **({} if self.recorded and given and is_augmented(self.data) else given))
        recorded = load_original(self.recorded, data.meta, **given)[0] if self.recorded else None
        options: dict[str, Any] = {"changes": parse_changes(self.set), "force": self.force, "steps": self.steps}
        options |= {"profile": self.profile, "seed": self.seed, "limits": Limits(self.minutes), "alone": self.alone}
        with log_to(self.log):
            train_model(self.model, data, folder=self.out, recorded=recorded, **options)
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
    pairs: OptionalCount = None
    """In place of the tasks so many random pairs of start and goal, drawn by the seed: to choose settings on."""
    episodes: OptionalCount = None
    """Episodes of each task (default: 50, or 2 of a model of profile smoke; 1 of each random pair)."""
    max_steps: OptionalCount = None
    """Steps of an episode (default: OGBench's limit and that of the paper's reference code; what an own maze needs)."""
    replan: int | None = None
    """Environment steps between plans; 0 replans only when late (default: 0, or 50 at profile paper)."""
    lookahead: int | None = None
    """Plan steps from one subgoal to the next (default: as the settings for the dataset say)."""
    oracle_path: bool = False
    """Have an agent follow the shortest path over the true map: where it fails there, it is to blame and not a plan."""
    candidates: int | None = None
    """Candidates of plan search (default: 1, which follows plans as they are drawn)."""
    set: tuple[str, ...] = ()
    """Any other setting of how plans are followed or searched for: PATH=VALUE, such as search.bisect=false."""
    seed: Seed = 0
    """Seed of starts and goals, and of what the planner draws."""
    workers: Workers = None
    """Processes that hold environments (default: all cores). The successes do not depend on it."""
    keep: OptionalFile = None
    """Add the rows to this JSONL file."""
    png: OptionalFigure = None
    """Draw one episode of every task from above: the plan, the subgoals and the path taken."""
    video: OptionalFile = None
    """Write a video of the same episodes: .gif, or .mp4 where ffmpeg is installed."""
    rollouts: OptionalFile = None
    """Write the same episodes for `scots app`; as rollouts.json in the planner's folder it finds them."""

    def run(self) -> None:
        """Print success per task, and keep the rows."""
        from scots.core.files import append_rows
        from scots.evaluation.results import evaluate
        from scots.experiments.models import load_model, oracle_for, subject_of
        from scots.reporting import rollouts
        from scots.reporting.maps import save_figure
        from scots.reporting.rollout_file import save_rollouts
        from scots.reporting.success import success_table

        if self.video:
            rollouts.video_writer(self.video)  # or say now that it cannot be written
        agent = load_model(self.controller) if self.controller else None
        model = load_model(self.model)
        planner, agent = (oracle_for(model), model) if self.oracle_path else (model, agent)
        subject = subject_of(planner, agent, self.dataset, self._changes())
        tasks = self._tasks(subject.meta)
        limits = subject.step_limits if self.max_steps is None else (self.max_steps,)
        options: dict[str, Any] = {"limits": limits, "seed": self.seed, "workers": self.workers}
        rows = evaluate(subject, tasks, episodes=self._episodes(subject.profile), **options)
        print(success_table(rows).text())
        if self.keep:
            append_rows(self.keep, [row.to_dict() for row in rows])
        if self.png or self.video or self.rollouts:
            played: dict[str, Any] = {"max_steps": limits[-1], "seed": self.seed, "encode": subject.encode}
            recorded = rollouts.record(subject.controller, subject.meta, tasks, **played)
        if self.png:
            save_figure(rollouts.rollouts_figure(recorded, subject.meta), self.png)
        if self.video:
            rollouts.write_video(recorded, subject.meta, self.video)
        if self.rollouts:
            save_rollouts(recorded, subject.meta, self.rollouts)

    def _tasks(self, meta: Meta) -> tuple[Task, ...]:
        from scots.envs import environment_class, tasks_of

        if self.pairs is None:
            return tasks_of(meta, self.tasks)
        if self.tasks or self.png or self.video or self.rollouts:
            raise BadInput(
                "--pairs takes the place of --tasks, and --png, --video and --rollouts show those: choose one"
            )
        return environment_class(meta).random_tasks(meta, self.pairs, self.seed)

    def _episodes(self, profile: str) -> int:
        from scots.experiments.pipeline import EPISODES

        return self.episodes or (1 if self.pairs else EPISODES.get(profile, EPISODES["laptop"]))

    def _changes(self) -> dict[str, Any]:
        from scots.core.config import parse_changes

        flags: dict[str, Any] = {"following.replan_every": self.replan, "following.lookahead": self.lookahead}
        if self.candidates is not None:
            searches = self.candidates > 1
            flags |= {"search.candidates": self.candidates, "search.mend": searches, "search.bisect": searches}
        return {path: value for path, value in flags.items() if value is not None} | parse_changes(self.set)


@dataclass(frozen=True)
class FillTable:
    """Make a table of the paper: collect, augment, train, evaluate what is missing, then print ours beside theirs."""

    name: Positional[Annotated[str, arg(metavar="NAME")]]
    """Name of the table, such as planning or replanning."""
    datasets: tuple[str, ...] = ()
    """Only these datasets (default: all of the table)."""
    columns: tuple[str, ...] = ()
    """Only these columns (default: all that can be made here)."""
    seeds: Seeds = (0,)
    """Seeds of the evaluation."""
    training_seed: Seed = 0
    """Seed of everything that is augmented and trained; the recorded data stays the same."""
    profile: Profile = field(default_factory=default_profile)
    """Scale: seconds, about an hour a dataset on two cores, or the paper's own (a GPU)."""
    log: Log = "tensorboard"
    """Where metrics of training go, beside metrics.jsonl; none writes neither."""
    dry_run: bool = False
    """Only print what is left to do, with the time it should take."""
    keep: OptionalFile = None
    """Add the rows that are not there yet to this JSONL file, run by run."""

    def run(self) -> None:
        """Print the work list or the table."""
        from scots.experiments import tables
        from scots.reporting.rows import append_new_rows
        from scots.reporting.success import result_tables

        table = tables.table_of(self.name)
        runs = table.runs(self.datasets, self.columns, self.seeds, self.training_seed, self.profile)
        if self.dry_run:
            print(tables.work_list(runs))
            return
        rows = []
        with log_to(self.log):
            for done in tables.fill(runs):
                own = [row.to_dict() for row in done]
                rows += own
                if self.keep:  # at once: a table takes hours
                    append_new_rows(self.keep, own)
        print("\n\n".join(block.text() for block in result_tables(table, rows)))


Command = (
    Annotated[Data, subcommand("data", prefix_name=False)]
    | Annotated[Augment, subcommand("augment", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[PlanPaths, subcommand("plan", prefix_name=False)]
    | Annotated[Evaluate, subcommand("evaluate", prefix_name=False)]
    | Annotated[FillTable, subcommand("table", prefix_name=False)]
    | Annotated[Report, subcommand("report", prefix_name=False)]
    | Annotated[App, subcommand("app", prefix_name=False)]
    | Annotated[Doctor, subcommand("doctor", prefix_name=False)]
)


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 internal error, 2 bad input, 130 interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if words == ["--version"]:
        print(f"scots {__version__}")
        return 0
    description = "State-covering trajectory stitching: short logs in, long and diverse trajectories out. "
    try:
        check_words(words)
        command = tyro.cli(
            Command,
            prog="scots",
            args=words,
            config=(OmitArgPrefixes,),
            description=description + "Add --debug to any command for a full traceback.",
        )
        check_arguments(command)
        command.run()
        sys.stdout.flush()  # or who reads would be found gone only after the end
        return 0
    except BadInput as error:
        return _fail(f"scots: {error}", debug, 2)
    except OSError as error:  # a full disk, a missing permission: nothing that we could do better
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return 0
        return _fail(f"scots: {error.filename or 'the system'}: {error.strerror or error}", debug, 2)
    except MemoryError as error:
        return _fail(f"scots: out of memory: {error}; choose smaller sizes, or use less data", debug, 2)
    except KeyboardInterrupt:
        return _fail("scots: stopped; the same command continues where it can", debug, 130)
    except Exception as error:
        return _fail(
            f"scots: internal error, please report it: {type(error).__name__}: {error} (--debug for more)", debug, 1
        )


def _nobody_reads() -> bool:
    """Whether who reads our output, such as head, has read enough; what is left of it then goes nowhere."""
    with suppress(OSError, AttributeError):  # no file behind it, or a system without poll
        output, pipe = sys.stdout.fileno(), select.poll()
        pipe.register(output, 0)  # tells of nothing but that the other end is gone
        if pipe.poll(0):
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)
            return True
    return False


def _fail(message: str, debug: bool, code: int) -> int:
    if debug:
        traceback.print_exc()
    print(" ".join(message.split()), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
