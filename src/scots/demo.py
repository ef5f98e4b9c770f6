"""`make demo`: the whole paper in miniature. A small dataset, one planner trained on it and one on it stitched.

Then own logs: street tracks as CSV files, stitched and planned with, where there is neither simulator nor action.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from scots.app.run_folder import RunFolder
from scots.core.console import console
from scots.core.versions import code_version, now, package_versions
from scots.datasets import load, streets
from scots.datasets.specs import maze_collection
from scots.envs import tasks_of
from scots.evaluation.results import EvalResult
from scots.experiments.models import augment, save_search_parts, train_model
from scots.experiments.pipeline import DataStage, Pipeline, Run
from scots.experiments.planning import plan, planner_of, search_parts
from scots.experiments.recipe import Recipe
from scots.models.cache import record_time
from scots.reporting.document import Commands, Document, Facts, Paragraph, Picture, Section, TableBlock
from scots.reporting.intervals import success_rate
from scots.reporting.maps import save_figure
from scots.reporting.plan_figure import plan_figure
from scots.reporting.plots import write_figures
from scots.reporting.quality import measure_quality
from scots.reporting.quality_document import measured_here, quality_facts, verdict_finding
from scots.reporting.rollout_file import save_rollouts
from scots.reporting.rollouts import record, rollouts_figure

_COLLECTION = maze_collection("point", "medium", "stitch").resized(1000)  # a fifth of the dataset
SHORT = {  # what makes it minutes: fewer trajectories, shorter trainings
    "augmenter.trajectories": 500,
    "augmenter.embedding.training.steps": 1500,
    "augmenter.stitcher.training.steps": 2000,
    "augmenter.inverse.training.steps": 2000,
    "planner.training.steps": 1500,
    "agent.training.steps": 2500,
}
RECIPES = {
    "as recorded": Recipe(
        None, "hd", "gciql", {path: n for path, n in SHORT.items() if not path.startswith("augmenter")}
    ),
    "stitched": Recipe("scots", "hd", "gciql", SHORT),
}
_TRACKS = 60  # CSV files of street tracks
_SHORT_TRACKS = {  # of own logs, whose planner is trained only to be searched
    "trajectories": 200,
    "embedding.training.steps": 1500,
    "stitcher.training.steps": 2000,
}
_TRACK_STEPS = 1200  # of the planner that learns from them
_TRIPS = (((100.0, 400.0), (890.0, 900.0)), ((60.0, 120.0), (940.0, 640.0)))  # from and to, in metres
_NEXT = (
    "scots data inspect YOUR_LOGS --position x,y --png logs.png   # your own data: CSV, Parquet, npz, HDF5, Minari",
    "scots augment YOUR_LOGS --out aug.npz                        # stitch it",
    "scots report YOUR_LOGS aug.npz --out report                  # and see how good that is",
    "scots table planning --dry-run                               # the paper's tables, and how long they take",
)
_ROLLOUTS = "rollouts.json"  # episodes of the planner that learned from stitched data


def main(folder: Path) -> int:
    """Collect, augment, train, evaluate, and write one page about it into the folder."""
    pipelines = demo_pipelines(folder)
    rows = {name: pipeline.rows() for name, pipeline in pipelines.items()}
    path = folder / "report.html"
    demo_document(pipelines, rows, folder).write_html(path)
    _describe_run(pipelines["stitched"], folder)
    for name, own in rows.items():
        console.print(f"planner trained on the data {name}: {success_rate([row.to_dict() for row in own])} % success")
    console.print(f"the report is {path}; to play with it: scots app {folder}", soft_wrap=True)
    return 0


def demo_pipelines(folder: Path) -> dict[str, Pipeline]:
    """The pipelines of both recipes, whose data is collected; all they make stays in the folder."""
    os.environ["SCOTS_HOME"] = str(folder / "home")
    source = DataStage(_COLLECTION.id, _COLLECTION)
    if not source.is_done:
        with record_time(source.folder):
            source.run()
    return {name: Pipeline(Run(_COLLECTION.id, recipe), _COLLECTION) for name, recipe in RECIPES.items()}


def _describe_run(stitched: Pipeline, folder: Path) -> None:
    """Say in run.json what `scots app` shows of this folder; plans are compared by parts that stitching left."""
    assert stitched.planner is not None
    assert stitched.augment is not None
    save_search_parts(stitched.planner.folder, stitched.training_data)
    paths = {"home": folder / "home", "data": stitched.augment.path, "planner": stitched.planner.folder}
    inside = {name: str(path.resolve().relative_to(folder.resolve())) for name, path in paths.items()}
    RunFolder(**inside, rollouts=_ROLLOUTS).save(folder)


# ----------------------------------------------------------------------------------------------------------- the page


def demo_document(pipelines: dict[str, Pipeline], rows: dict[str, list[EvalResult]], folder: Path) -> Document:
    """Success rates, episodes, the data before and after, and times; its pictures are written into the folder."""
    recorded, stitched = pipelines["as recorded"], pipelines["stitched"]
    data, aug = recorded.data, stitched.training_data
    found = measure_quality(data, aug)
    pictures = write_figures(data, aug, found, folder)
    lead = (
        f"{len(data):,} recorded episodes of {data.lengths[0] - 1} steps each, stitched into {len(aug):,} trajectories "
        f"of {aug.lengths[0] - 1:,} steps, and what a planner learns from the one and from the other: the same "
        "network, training steps and controller, one plan at a time, no search. All of it was made by the command that "
        "made this page, on the machine it ran on."
    )
    versions = package_versions("torch", "faiss-cpu", "mujoco", "ogbench")
    measured = measured_here(versions, now(), code_version())
    intro = Paragraph("The same with your own data, or the paper's tables in full:")
    sections = [
        Section("Does it help?", [_success_table(rows), *_rollouts(pipelines, folder)]),
        Section("The data before and after", [verdict_finding(found.verdict), Facts(quality_facts(found)), *pictures]),
        own_logs(folder),
        Section("Where the time went", [_times(pipelines, rows)]),
        Section("How it was made", [Facts(measured), Commands([f"python -m scots.demo {folder}"])]),
        Section("Next", [intro, Commands(_NEXT)]),
    ]
    return Document("Short logs in, long plans out", lead, sections)


def own_logs(folder: Path) -> Section:
    """Tracks of vehicles as a logger writes them: stitched, planned with, and scored by a map that nothing learned."""
    tracks = folder / "tracks"
    if not tracks.exists():
        streets.write_csv(tracks, _TRACKS)
    data, network = load(str(tracks)), streets.Streets()
    aug = augment(data, changes=_SHORT_TRACKS)
    planner = planner_of(train_model("hd", aug, recorded=data, steps=_TRACK_STEPS))
    starts, goals = zip(*_TRIPS, strict=True)
    paths = plan(planner, starts, goals)
    picture = Picture(
        folder / "tracks.png",
        "Plans between places that nobody drove as a whole",
        "The recorded tracks as dots, candidates faintly, and the best plan of each trip.",
    )
    save_figure(plan_figure(paths, search_parts(planner).support, planner.meta, data), picture.path)
    on_street = {
        "recorded rows": network.on_street(data.positions),
        "stitched states": network.on_street(aug.positions),
        "positions of the plans": network.on_street(np.concatenate([path.positions for path in paths])),
    }
    body = [[name, f"{len(flags):,}", f"{100 * flags.mean():.1f} %"] for name, flags in on_street.items()]
    intro = (
        f"{_TRACKS} CSV files as a logger writes them, with irregular times and gaps: no simulator, actions or map. "
        "The streets are known here, so what came out can be scored by them. "
        f"{np.mean([path.replaced for path in paths]):.0%} of a plan's states are recorded ways, taken where the plan "
        f"as drawn left the data: this planner has trained for only {_TRACK_STEPS:,} steps."
    )
    table = TableBlock(["", "count", "within 5 m of a street"], body, "On the streets")
    return Section("Own logs, without a simulator", [Paragraph(intro), table, picture])


def _success_table(rows: dict[str, list[EvalResult]]) -> TableBlock:
    tasks = sorted({row.task for own in rows.values() for row in own})
    body = [
        [
            f"planner trained on the data {name}",
            *(f"{row.successes} of {row.episodes}" for row in sorted(own, key=lambda row: row.task)),
            success_rate([row.to_dict() for row in own]),
        ]
        for name, own in rows.items()
    ]
    header = ["", *(f"task {task}" for task in tasks), "all, % [95 %]"]
    return TableBlock(header, body, f"Goals reached within {next(iter(rows.values()))[0].max_steps} steps, by task")


def _rollouts(pipelines: dict[str, Pipeline], folder: Path) -> list[Picture]:
    pictures = []
    for name, pipeline in pipelines.items():
        meta, path = pipeline.subject.meta, folder / f"rollouts-{name.replace(' ', '-')}.png"
        recorded = record(pipeline.subject.controller, meta, tasks_of(meta), max_steps=1000, seed=0)
        save_figure(rollouts_figure(recorded, meta), path)
        if name == "stitched":
            save_rollouts(recorded, meta, folder / _ROLLOUTS)
        caption = "One episode of every task from above: the first plan, all subgoals, and the path taken."
        pictures.append(Picture(path, f"Planner trained on the data {name}", caption))
    return pictures


def _times(pipelines: dict[str, Pipeline], rows: dict[str, list[EvalResult]]) -> TableBlock:
    stages = [*pipelines["stitched"].stages, "evaluate"]
    spent = {
        name: pipeline.seconds() | {"evaluate": sum(row.seconds for row in rows[name])}
        for name, pipeline in pipelines.items()
    }
    body = [[stage, *(_minutes(spent[name].get(stage)) for name in pipelines)] for stage in stages]
    return TableBlock(["stage", *pipelines], body, "Wall time; what both share was done once")


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
