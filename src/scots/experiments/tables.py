"""The paper's tables as data: which recipes on which datasets, and the published numbers beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from scots.core.config import Profile
from scots.core.console import console
from scots.core.errors import BadInput
from scots.datasets.specs import REGISTERED_LIMIT, SPECS, DatasetSpec
from scots.evaluation.results import EvalResult
from scots.experiments.pipeline import Pipeline, Run
from scots.experiments.published import (
    EMBEDDING,
    GCRL,
    LOCOMOTION,
    NAVIGATION,
    NEIGHBOURS,
    NOVELTY,
    PLANNING,
    REFINEMENT,
    REPLANNING,
    SEGMENT,
    Published,
)
from scots.experiments.recipe import SEARCH, Recipe

_STITCH = tuple(f"{agent}maze-{size}-stitch-v0" for agent in ("point", "ant") for size in ("medium", "large", "giant"))


_RecipeFor = Callable[[DatasetSpec], Recipe]
_LimitFor = Callable[[DatasetSpec], int]


@dataclass(frozen=True)
class ResultTable:
    """Rows are datasets, columns are methods; a column without a recipe has only published numbers."""

    title: str
    columns: dict[str, _RecipeFor | None]  # name -> recipe for a dataset
    published: dict[str, Published]  # dataset -> column -> number
    pairs: int = 0  # random pairs of start and goal in place of the benchmark's tasks
    tasks: dict[int, str] = field(default_factory=dict)  # to show one by one, with what they are called
    published_tasks: tuple[int, ...] = ()  # those that the published numbers are about; none: all
    limits: dict[str, _LimitFor] = field(default_factory=dict)  # column -> step limit, where not the reference limit
    note: str = ""  # what a reader has to know beyond the title
    details: tuple[Literal["failures", "cost"], ...] = ()  # to show below the table
    series: dict[str, dict[str, str]] = field(default_factory=dict)  # line of its figure -> place -> column

    @property
    def recipes(self) -> dict[str, _RecipeFor]:
        """The columns that can be made here."""
        return {name: recipe for name, recipe in self.columns.items() if recipe is not None}

    def recipe(self, column: str, dataset: str, profile: Profile) -> Recipe | None:
        """What fills a cell, without overrides that change nothing; None where only others have published."""
        make, spec = self.columns[column], SPECS[dataset]
        return make(spec.at(profile)).normalized(spec, profile) if make else None

    def published_limit(self, column: str, dataset: str) -> int:
        """The step limit of the episodes behind a published number."""
        spec = SPECS[dataset]
        return self.limits[column](spec) if column in self.limits else spec.reference_limit

    def runs(
        self,
        datasets: Sequence[str] = (),
        columns: Sequence[str] = (),
        seeds: Sequence[int] = (0,),
        training_seed: int = 0,
        profile: Profile = "laptop",
    ) -> list[Run]:
        """What fills the table, or some of its rows and columns: dataset by dataset, one run per evaluation seed."""
        for chosen, known in ((datasets, self.published), (columns, self.recipes)):
            for name in chosen:
                if name not in known:
                    raise BadInput(f"{name!r} cannot be made in this table; it has {', '.join(known)}")
        recipes = [
            (dataset, recipe)
            for dataset in datasets or self.published
            for column in columns or self.recipes
            if (recipe := self.recipe(column, dataset, profile))
        ]
        shared = (profile, training_seed)
        return [Run(dataset, recipe, *shared, seed, self.pairs) for dataset, recipe in recipes for seed in seeds]


def _hd(spec: DatasetSpec) -> Recipe:
    """The baseline: the planner on the data as it was recorded; it follows the one plan it draws."""
    return Recipe(None, "hd", spec.controller)


def _scots(spec: DatasetSpec) -> Recipe:
    """The paper's method: the same planner on stitched data."""
    return Recipe("scots", "hd", spec.controller)


def _untrained(planner: str) -> _RecipeFor:
    """A planner that learns nothing, with the same controller."""
    return lambda spec: Recipe(None, planner, spec.controller)


def _composed(planner: str, augmenter: str | None = None, overrides: dict[str, Any] | None = None) -> _RecipeFor:
    """A planner of chunks, on the data as it was recorded or on stitched data."""
    return lambda spec: Recipe(augmenter, planner, spec.controller, overrides or {})


def _diffuser(augmenter: str | None) -> _RecipeFor:
    """Diffuser, which plans actions, on recorded or augmented data."""
    return lambda spec: Recipe(augmenter, "diffuser", None)


def _with(overrides: dict[str, Any], recipe: _RecipeFor = _scots) -> _RecipeFor:
    return lambda spec: replace(recipe(spec), overrides=overrides)


def _alone(agent: str, augmenter: str | None = None, keep_recorded: bool = False) -> _RecipeFor:
    """An agent that acts by itself, on the data as it was recorded or as an augmenter makes it."""
    overrides = {"data.keep_recorded": True} if keep_recorded else {}
    return lambda spec: Recipe(augmenter, None, agent, overrides)


def _segments_of(states: int) -> _RecipeFor:
    """Segments of this many states, and as many fewer in a trajectory."""

    def recipe(spec: DatasetSpec) -> Recipe:
        stitches = round(spec.stitches * (spec.segment - 1) / (states - 1))
        return replace(
            _scots(spec), overrides={"augmenter.stitching.segment": states, "augmenter.stitching.stitches": stitches}
        )

    return recipe


_SEARCH = {f"search.{name}": value for name, value in SEARCH.to_dict().items()}
_RANKING = {"search.candidates": SEARCH.candidates}
"""The search that is left where plans have no parts to mend or bisect."""
_BY_CLOCK = {"following.replan_every": 50, "following.replan_late": False}
_LATE_OR_ASTRAY = {"following.replan_late": "or astray"}
_ONCE = {"following.replan_every": 0, "following.replan_late": False}


def _registered(_: DatasetSpec) -> int:
    """OGBench's limit: agents that act alone were evaluated in its environments as they are."""
    return REGISTERED_LIMIT


def _of_chunks(spec: DatasetSpec) -> int:
    """That of the reference code of CD, longer in one maze only: the paper has its numbers of GSC and CD from there."""
    return 2000 if spec.environment == "antmaze-giant-v0" else REGISTERED_LIMIT


_DISTANCES = {1: "3 to 5 m, as recorded", 2: "6 to 15 m", 3: "16 to 35 m", 4: "36 m and more"}
_ALONE = ("GCIQL", "QRL", "CRL", "HIQL")
_AUGMENTED = {"": None, "+SynthER": "synther", "+SCoTS": "scots"}

_HORIZONS = (5, 10, 15, 20, 25)

_MAZES = tuple(PLANNING)
_ALSO_IN_POINT_MAZES: dict[str, Published] = {f"pointmaze-{size}-stitch-v0": {} for size in ("large", "giant")}
"""Where the paper has ant mazes only."""
_LONG_CHUNKS = {"planner.chunk": 32, "planner.overlap": 11, "planner.stride": 16}
"""497 states, about as long as the plans of HD on stitched data of medium and large mazes."""

TABLES: dict[str, ResultTable] = {
    "planning": ResultTable(
        "Planning (the paper's Table 1)",
        {
            "GCIQL": None,
            "QRL": None,
            "CRL": None,
            "HIQL": None,
            "GSC": _composed("gsc"),
            "CD": _composed("cd"),
            "HD": _hd,
            "SCoTS": _scots,
        }
        | {
            "GSC + search": _with(_RANKING, _composed("gsc")),
            "CD + search": _with(_RANKING, _composed("cd")),
            "HD + search": _with(_SEARCH, _hd),
            "SCoTS + search": _with(_SEARCH),
        },
        PLANNING,
        limits=dict.fromkeys(_ALONE, _registered) | dict.fromkeys(("GSC", "CD"), _of_chunks),
        note=f"""HD learns from the recorded data, SCoTS from the same data after stitching; both are trained alike and
            follow one plan at a time. Search draws {SEARCH.candidates} plans and keeps the cheapest by embedding
            and recorded support. HD and SCoTS mend and bisect it too; plans of GSC and CD are drawn as a whole and
            can only be ranked, each of them already the one of its own candidates whose overlaps agree best. That
            every other candidate arrives later was adopted after task 5 of antmaze-large had failed with search
            (84.8 % in all): there it is no held-out result. Rows of search on other datasets but antmaze-giant are
            from before.""",
        details=("failures", "cost"),
    ),
    "without_diffusion": ResultTable(
        "Planners without diffusion (beyond the paper)",
        {
            "recorded support": _untrained("support"),
            "landmarks": _untrained("landmarks"),
            "oracle": _untrained("oracle"),
        },
        {dataset: {} for dataset in _MAZES},
        note="""With the same controller: the shortest path over boxes of space where states were recorded; bisection
            over recorded landmarks in the embedding; and, as the oracle, the shortest path over the true map, which
            no other planner sees. What the oracle loses is lost by the controller.""",
        details=("failures", "cost"),
    ),
    "held_out": ResultTable(
        "Planning between random pairs of cells (beyond the paper)",
        {"HD": _hd, "SCoTS": _scots, "SCoTS + search": _with(_SEARCH), "oracle": _untrained("oracle")},
        {dataset: {} for dataset in _MAZES},
        pairs=100,
        note="100 pairs with one episode each. No setting was chosen on them.",
    ),
    "replanning": ResultTable(
        "When to plan again (the paper's Table 3)",
        {
            "GSC-once": _composed("gsc", None, _ONCE),
            "GSC": _composed("gsc", None, _BY_CLOCK),
            "GSC, when late": _composed("gsc"),
            "CD-once": _composed("cd", None, _ONCE),
            "CD": _composed("cd", None, _BY_CLOCK),
            "CD, when late": _composed("cd"),
            "CD, when late or astray": _composed("cd", None, _LATE_OR_ASTRAY),
            "SCoTS-once": _with(_ONCE),
            "SCoTS": _with(_BY_CLOCK),
            "SCoTS, when late": _scots,
            "SCoTS, when late or astray": _with(_LATE_OR_ASTRAY),
        },
        REPLANNING,
        limits=dict.fromkeys(("CD-once", "CD"), _of_chunks),
        note="""Once; by the clock, every 50 steps, as published, in the columns named like the planner; or when late:
            when a subgoal takes longer than recorded episodes take to get that far. Astray is also who is farther
            from a subgoal than when it was set, by more than the tolerance. The published CD plans again when it is
            far from its plan, not by the clock.""",
        series={
            "SCoTS": {"once": "SCoTS-once", "every 50 steps": "SCoTS", "when late": "SCoTS, when late"},
            "CD": {"once": "CD-once", "every 50 steps": "CD", "when late": "CD, when late"},
            "GSC": {"once": "GSC-once", "every 50 steps": "GSC", "when late": "GSC, when late"},
        },
        details=("failures",),
    ),
    "composition": ResultTable(
        "Stitching data, stitching plans, or both (beyond the paper)",
        {
            "SCoTS": _scots,
            "GSC": _composed("gsc"),
            "CD": _composed("cd"),
            "GSC, SCoTS data": _composed("gsc", "scots"),
            "CD, SCoTS data": _composed("cd", "scots"),
            "CD, long chunks of SCoTS data": _composed("cd", "scots", _LONG_CHUNKS),
        },
        {
            dataset: {column: PLANNING[dataset][column] for column in ("GSC", "CD", "SCoTS")}
            for dataset in ("pointmaze-giant-stitch-v0", "antmaze-large-stitch-v0")
        },
        limits=dict.fromkeys(("GSC", "CD"), _of_chunks),
        note="""Stitching data: SCoTS, where HD plans all of the way at once. Stitching plans: GSC and CD on recorded
            data. Both: the same on stitched data, and CD with chunks of 497 states of it. HD's networks know no
            overlaps, so HD cannot be composed itself: these chunks, of CD's network, stand for its plans, which have
            501 states on stitched data of medium and large mazes. There CD begins to compose where HD's horizon ends;
            in giant mazes, where HD's plans have 1001 states, before. Long chunks have positions 16 steps apart, the
            others 8, and straight lines between. A network call costs more in one network than in another: HD and CD
            are compared by their times, and those only where nothing else ran beside them.""",
        details=("cost",),
    ),
    "search": ResultTable(
        "Plan search part by part (beyond the paper)",
        {
            "one plan": _scots,
            "ranking": _with(_RANKING),
            "ranking, mending": _with({"search.candidates": SEARCH.candidates, "search.mend": True}),
            "ranking, mending, bisection": _with(_SEARCH),
        },
        {dataset: {} for dataset in _STITCH},
        note=f"""Ranking: the cheapest of {SEARCH.candidates} plans; mending: its windows with faults are drawn again;
            bisection: it goes through a recorded position between start and goal where that is cheaper.""",
    ),
    "locomotion": ResultTable(
        "Returns on locomotion data (the paper's appendix)",
        {"Diffuser": _diffuser(None), "Diffuser+SCoTS": _diffuser("scots")},
        LOCOMOTION,
        note="Normalised returns: the paper's on D4RL, ours on analogues collected here.",
    ),
    "controller_horizon": ResultTable(
        "The horizon of the controller (the paper's Figure 5)",
        {
            f"{name}, {steps}": _with({"following.lookahead": steps}, planner)
            for name, planner in (("SCoTS", _scots), ("CD", _composed("cd")))
            for steps in _HORIZONS
        },
        {dataset: {} for dataset in ("antmaze-giant-stitch-v0", *_STITCH[:3])},
        note="""Plan steps from one subgoal to the next. The paper draws this on antmaze-giant-stitch-v0 and prints no
            numbers.""",
        series={name: {str(steps): f"{name}, {steps}" for steps in _HORIZONS} for name in ("SCoTS", "CD")},
    ),
    "gcrl": ResultTable(
        "Agents that act by themselves (the paper's Table 2)",
        {
            **{
                f"{agent}{suffix}": _alone(agent.lower(), augmenter)
                for agent in ("GCIQL", "CRL", "HIQL")
                for suffix, augmenter in _AUGMENTED.items()
            },
            "QRL": _alone("qrl"),
        },
        GCRL,
        limits=dict.fromkeys(next(iter(GCRL.values())), _registered),
        note="""On recorded, SynthER's and stitched data. The published QRL, on recorded data, is from the paper's Table
            1.""",
    ),
    "navigation": ResultTable(
        "A robot with a LiDAR (the paper's appendix)",
        {"HIQL": _alone("hiql"), "HIQL+SCoTS": _alone("hiql", "scots")},
        NAVIGATION,
        tasks=_DISTANCES,
        published_tasks=(2, 3, 4),
        note="""Goals farther away than any recorded episode goes, in worlds of our own, with states of latents alone,
            and of latents and odometry: the paper does not say which it has. The limit of 2000 steps in the
            building is ours: the paper states none.""",
    ),
    "embedding": ResultTable(
        "Stitching in raw states or in the temporal-distance embedding (the paper's appendix)",
        {"raw-states": _with({"augmenter.encoder": "raw"}), "SCoTS": _scots},
        EMBEDDING,
    ),
    "refinement": ResultTable(
        "Joins left as they are, or refined (the paper's appendix)",
        {
            "HD-unrefined": _with({"augmenter.refine": False}),
            "HD": _scots,
            "HIQL-unrefined": _with({"augmenter.refine": False}, _alone("hiql", "scots")),
            "HIQL": _alone("hiql", "scots"),
        },
        REFINEMENT,
        limits=dict.fromkeys(("HIQL-unrefined", "HIQL"), _registered),
    ),
    "novelty": ResultTable(
        "The weight of novelty against progress (the paper's appendix)",
        {
            "HD": _hd,
            **{
                f"beta={weight}": _with({"augmenter.stitching.novelty_weight": float(weight)})
                for weight in (0, 2, 4, 8)
            },
            **{f"{name} remembered": _with({"augmenter.stitching.memory": name}) for name in ("endpoints", "states")},
        },
        _ALSO_IN_POINT_MAZES | NOVELTY,
        note="""Novelty of a segment is measured against the ends of the trajectory's segments, as in the official code,
            or against all its states, as in the paper's text.""",
    ),
    "segment": ResultTable(
        "States of a segment (the paper's appendix)",
        {f"H={states}": _segments_of(states) for states in (26, 52, 104)},
        _ALSO_IN_POINT_MAZES | SEGMENT,
        note="Ours are stitched to trajectories of about the same length.",
    ),
    "neighbours": ResultTable(
        "Nearest segments that are scored at each stitch (the paper's appendix)",
        {f"K={count}": _with({"augmenter.stitching.candidates": count}) for count in (3, 10, 20)},
        _ALSO_IN_POINT_MAZES | NEIGHBOURS,
    ),
    "gcrl_data": ResultTable(
        "Agents that also learn from the recorded episodes (beyond the paper)",
        {
            f"{agent}{suffix}{', both' if both else ''}": _alone(agent.lower(), augmenter, keep_recorded=both)
            for agent in ("GCIQL", "HIQL")
            for suffix, augmenter in _AUGMENTED.items()
            for both in ((False, True) if augmenter else (False,))
        },
        {dataset: {} for dataset in _MAZES},
        note="""Beside the augmented data, where SynthER's transitions are in the TD terms only. The paper does not say
            whether its agents did.""",
    ),
}


def table_of(name: str) -> ResultTable:
    """A table by name."""
    if name not in TABLES:
        raise BadInput(f"table {name!r} is not one of {', '.join(TABLES)}")
    return TABLES[name]


def fill(runs: Sequence[Run]) -> Iterator[list[EvalResult]]:
    """Do what is left of these runs, one after the other, and yield the rows of each."""
    for number, run in enumerate(runs, start=1):
        data = run.recipe.augmenter or "recorded data"
        console.rule(f"{number} of {len(runs)}: {run.dataset}, {data}, {run.recipe.actor}, seed {run.seed}")
        yield Pipeline(run).rows()


def work_list(runs: Sequence[Run]) -> str:
    """What is left of these runs, each piece of work once, with the time it should take on two cores."""
    work: dict[str, tuple[str, float | None]] = {}
    for run in runs:
        try:
            pipeline = Pipeline(run)
            pending = pipeline.pending()
        except BadInput as error:  # such as a policy that collects its data and does not ship
            work.setdefault(str(error), (f"{run.dataset} · cannot be made here: {error}", None))
            continue
        for name in pending:
            key = pipeline.stages[name].key() if name in pipeline.stages else run.to_json()
            minutes = _expected_minutes(pipeline, name) if run.profile == "laptop" else None
            work.setdefault(f"{name} {key}", (_describe(pipeline, name), minutes))
    if not work:
        return "nothing is left to do"
    lines = [f"{_minutes(minutes):>8}  {words}" for words, minutes in work.values()]
    total = sum(minutes or 0 for _, minutes in work.values())
    return "\n".join([*lines, f"{_minutes(total or None):>8}  in all, on two cores"])


def _expected_minutes(pipeline: Pipeline, stage: str) -> float | None:
    """How long a stage should take: an agent trains longer to act alone; augmenters and planners differ."""
    recipe = pipeline.recipe
    known = {
        "agent": "agent" if recipe.planner else "agent alone",
        "augment": f"augment {recipe.augmenter}",
        "planner": f"planner {recipe.planner}",
    }
    return pipeline.spec.minutes.get(known.get(stage, stage), pipeline.spec.minutes.get(stage))


def _describe(pipeline: Pipeline, stage: str) -> str:
    """A piece of work in words: the dataset, the stage, what it makes, and the overrides that matter to it."""
    recipe, run = pipeline.recipe, pipeline.run
    made = {"augment": recipe.augmenter, "planner": recipe.planner, "agent": recipe.agent, "evaluate": recipe.actor}
    parts = {"augment": ("augmenter",), "planner": ("augmenter", "data", "planner"), "agent": ("data", "agent")}
    every = ("augmenter", "data", "planner", "agent", "following", "search")
    relevant = parts.get(stage, every if stage == "evaluate" else ())
    changes = [f"{path} {value}" for path, value in recipe.overrides.items() if path.partition(".")[0] in relevant]
    words = [run.dataset, f"{stage} {made.get(stage) or ''}".strip()]
    if stage in ("planner", "evaluate") or (stage == "agent" and recipe.planner is None):
        words.append(f"on {recipe.augmenter or 'recorded'} data")
    return " · ".join([*words, *changes, *([f"seed {run.seed}"] if stage == "evaluate" else [])])


def _minutes(minutes: float | None) -> str:
    return "unknown" if minutes is None else f"{minutes:.0f} min"
