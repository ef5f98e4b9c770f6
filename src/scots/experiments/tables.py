"""The tables of the paper as data: which recipes on which datasets, and the published numbers to stand beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scots.core.config import Profile
from scots.core.console import console
from scots.core.errors import BadInput
from scots.evaluation.control import controller_of
from scots.evaluation.rollout import EvalResult
from scots.experiments.pipeline import Line, Run
from scots.experiments.recipe import Recipe

Published = dict[str, str]
"""Column -> what the paper prints: mean and deviation over its five seeds."""

STITCH = tuple(f"{agent}maze-{size}-stitch-v0" for agent in ("point", "ant") for size in ("medium", "large", "giant"))


@dataclass(frozen=True)
class Table:
    """Rows are datasets, columns are methods; a column without a recipe has only published numbers."""

    title: str
    columns: dict[str, Callable[[str], Recipe] | None]  # name -> recipe for a dataset
    published: dict[str, Published]  # dataset -> column -> number

    @property
    def recipes(self) -> dict[str, Callable[[str], Recipe]]:
        """The columns that can be made here."""
        return {name: recipe for name, recipe in self.columns.items() if recipe is not None}

    def runs(
        self,
        datasets: Sequence[str] = (),
        columns: Sequence[str] = (),
        seeds: Sequence[int] = (0,),
        training_seed: int = 0,
        profile: Profile = "laptop",
    ) -> list[Run]:
        """What fills the table, or these rows and columns of it: dataset by dataset, one run per evaluation seed."""
        for chosen, known in ((datasets, self.published), (columns, self.recipes)):
            for name in chosen:
                if name not in known:
                    raise BadInput(f"{name!r} cannot be made in this table; it has {', '.join(known)}")
        return [
            Run(dataset, self.recipes[column](dataset).plain(dataset, profile), profile, training_seed, seed)
            for dataset in datasets or self.published
            for column in columns or self.recipes
            for seed in seeds
        ]


def hd(dataset: str) -> Recipe:
    """The baseline: the planner on the data as it was recorded."""
    return Recipe(None, "hd", controller_of(dataset))


def scots(dataset: str) -> Recipe:
    """The paper's method: the planner on stitched data."""
    return Recipe("official", "hd", controller_of(dataset))


def _changed(path: str, value: float) -> Callable[[str], Recipe]:
    return lambda dataset: scots(dataset).but(path, value)


def _published(text: str) -> dict[str, Published]:
    """Lines `dataset: a±b a±b ...` under a line of column names."""
    head, *lines = text.strip().splitlines()
    rows = (line.split(":") for line in lines)
    return {dataset.strip(): dict(zip(head.split(), numbers.split(), strict=True)) for dataset, numbers in rows}


PLANNING = _published("""
    GCIQL QRL CRL HIQL GSC CD HD SCoTS
    pointmaze-medium-stitch-v0: 21±9 80±12 0±1  74±6  100±0 100±0 24±3 100±0
    pointmaze-large-stitch-v0:  31±2 84±15 0±0  13±6  100±0 100±0 17±2 100±0
    pointmaze-giant-stitch-v0:  0±0  50±8  0±0  0±0   29±3  68±3  0±0  100±0
    antmaze-medium-stitch-v0:   29±6 59±7  53±6 94±1  97±2  96±2  71±1 97±1
    antmaze-large-stitch-v0:    7±2  18±2  11±2 67±5  66±2  86±2  36±2 93±1
    antmaze-giant-stitch-v0:    0±0  0±0   0±0  2±2   20±1  65±3  0±0  87±2
    antmaze-medium-explore-v0:  13±2 1±1   3±2  37±10 90±2  81±2  42±3 99±1
    antmaze-large-explore-v0:   0±0  0±0   0±0  4±5   21±3  27±1  13±2 98±1
""")

REPLANNING = _published("""
    CD-once CD SCoTS-once SCoTS
    pointmaze-medium-stitch-v0: 100±0 100±0 100±0 100±0
    pointmaze-large-stitch-v0:  100±0 100±0 100±0 100±0
    pointmaze-giant-stitch-v0:  53±6  68±3  89±2  100±0
    antmaze-medium-stitch-v0:   92±2  96±2  97±1  97±1
    antmaze-large-stitch-v0:    76±2  86±2  92±2  93±1
    antmaze-giant-stitch-v0:    27±4  65±3  84±2  87±2
""")

TABLES: dict[str, Table] = {
    "planning": Table(
        "Planning (the paper's Table 1)",
        {"GCIQL": None, "QRL": None, "CRL": None, "HIQL": None, "GSC": None, "CD": None, "HD": hd, "SCoTS": scots},
        PLANNING,
    ),
    "replanning": Table(
        "Planning once or again and again (the paper's Table 3)",
        {"CD-once": None, "CD": None, "SCoTS-once": _changed("execution.replan_every", 0), "SCoTS": scots},
        REPLANNING,
    ),
    "candidates": Table(
        "Plans drawn at a time, of which the easiest is followed (beyond the paper)",
        {f"SCoTS, {count}": _changed("execution.candidates", count) for count in (1, 2, 4, 8)},
        {dataset: {} for dataset in STITCH},
    ),
    "controller_horizon": Table(
        "Steps of the plan from one subgoal to the next (the paper's Figure 5, which prints no numbers)",
        {f"SCoTS, {steps}": _changed("execution.lookahead", steps) for steps in (5, 10, 15, 20, 25)},
        {dataset: {} for dataset in ("antmaze-giant-stitch-v0", *STITCH[:3])},
    ),
}


def table_of(name: str) -> Table:
    """A table by name."""
    if name not in TABLES:
        raise BadInput(f"table {name!r} is not one of {', '.join(TABLES)}")
    return TABLES[name]


def fill(runs: Sequence[Run]) -> Iterator[list[EvalResult]]:
    """Do what is left of these runs, one after the other; the rows of each."""
    for number, run in enumerate(runs, start=1):
        augment = run.recipe.augment or "original data"
        console.rule(f"{number} of {len(runs)}: {run.dataset}, {augment}, {run.recipe.learner_name}, seed {run.seed}")
        yield Line(run).rows()


def work_list(runs: Sequence[Run]) -> str:
    """What is left of these runs, each stage once, with the time it should take on two cores."""
    lines: dict[tuple[str, ...], float | None] = {}
    for run in runs:
        for stage in Line(run).pending():
            lines.setdefault(_shared(run, stage), run.minutes(stage))
    if not lines:
        return "nothing is left to do"
    listed = [f"{_minutes(minutes):>8}  {' · '.join(words)}" for words, minutes in lines.items()]
    total = sum(minutes or 0 for minutes in lines.values())
    return "\n".join([*listed, f"{_minutes(total or None):>8}  in all, on two cores"])


def _shared(run: Run, stage: str) -> tuple[str, ...]:
    """What tells one piece of work from another: runs that share it do it once."""
    recipe, words = run.recipe, {"learner": run.recipe.learner, "controller": run.recipe.controller or ""}
    made = [f"{path} {value}" for path, value in recipe.settings.items() if path.startswith(stage)]
    if stage in ("learner", "augment"):
        made = [recipe.augment or "original", *made]
    if stage == "evaluate":
        made = [recipe.augment or "original", recipe.learner_name, *made, f"seed {run.seed}"]
        made += [f"{path} {value}" for path, value in recipe.settings.items()]
    return run.dataset, f"{stage} {words.get(stage, '')}".strip(), *made


def _minutes(minutes: float | None) -> str:
    return "unknown" if minutes is None else f"{minutes:.0f} min"
