"""Every dataset by id: where it comes from, and all published settings for it, in one typed table.

Sources: [S] the official code of SCoTS, [O] OGBench's hyper-parameters and protocol, [P] the paper, [C] the code of
Compositional Diffuser, [D] D4RL.
Nothing else in the package chooses settings by the words of a dataset id. Data without a row gets the defaults, with
segments, trajectories and plans as long as the data suggests (see horizons).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.trajectories import GoalMix, Meta, Trajectories
from scots.datasets import toy
from scots.datasets.horizons import (
    AUGMENTED_STATES,
    SEGMENT_STEPS,
    augmented_states,
    path_steps,
    plan_waypoints,
    segment_states,
)
from scots.datasets.protocols import CollectionSpec, EncodedScans, NavigationCollection
from scots.envs.locomotion import RUNNERS
from scots.envs.maze import MAZES, Maze, maze_of
from scots.envs.navigation import WORLDS
from scots.envs.toy import EPISODE_STATES

Body = Literal["point", "ant"]
Kind = Literal["stitch", "navigate", "explore"]

REGISTERED_LIMIT = 1000
"""Steps that OGBench allows in every point and ant maze; nearly all published numbers use it."""


@dataclass(frozen=True)
class MazeCollection(CollectionSpec):
    """How OGBench collects a maze dataset."""

    body: Body
    maze: str  # a key of MAZES, or the name of a custom maze
    kind: Kind
    noise: float  # standard deviation added to the action

    @property
    def id(self) -> str:
        """The dataset id."""
        return f"{self.body}maze-{self.maze}-{self.kind}-v0"

    @property
    def environment(self) -> str:
        """The environment id."""
        return f"{self.body}maze-{self.maze}-v0"

    @property
    def elsewhere(self) -> str:
        """OGBench's own file."""
        return f"`scots data download {self.id}`"

    @property
    def row_bytes(self) -> int:
        """Observation, action, qpos, qvel as float32 and one flag."""
        return 4 * (2 + 2 + 2 + 2) + 1 if self.body == "point" else 4 * (29 + 8 + 15 + 14) + 1

    def meta(self, maze: Maze | None = None, provenance: tuple[dict[str, Any], ...] = ()) -> Meta:
        """What is known of the dataset before it is collected; `maze` only for a custom one."""
        pose = ("x", "y", "z", "qw", "qx", "qy", "qz")
        joints = (*(f"joint_{n}" for n in range(8)), *(f"velocity_{n}" for n in range(14)))
        return Meta(
            dataset=self.id,
            environment=self.environment,
            columns=("x", "y") if self.body == "point" else (*pose, *joints),
            position=(0, 1),
            quaternions=() if self.body == "point" else (3,),
            maze=maze.to_text() if maze else (),
            provenance=provenance,
        )


_WHEN_LATE = {"replan_every": 0, "replan_late": True}


@dataclass(frozen=True)
class RunnerCollection(CollectionSpec):
    """How an analogue of a D4RL locomotion dataset is collected: by actors that were trained here.

    medium: by the first actor of a training run that earns 30 % of an expert's return. medium-replay: by the actors
    of the run up to that one, each for as many steps as the others.
    """

    body: Literal["hopper", "walker2d"]
    kind: Literal["medium", "medium-replay"]

    origin: ClassVar[str] = "collected here as an analogue of D4RL"

    @property
    def id(self) -> str:
        """The id of the dataset in D4RL."""
        return f"{self.body}-{self.kind}-v2"

    @property
    def environment(self) -> str:
        """The environment id."""
        return self.body

    @property
    def elsewhere(self) -> str:
        """The original, of a user who has it."""
        return "give D4RL's own file by its path"

    @property
    def row_bytes(self) -> int:
        """Observation, action, reward, qpos, qvel as float32 and one flag; qpos has what observations leave out."""
        runner = RUNNERS[self.body]
        return 4 * (2 * len(runner.columns) + 1 + runner.actions + 1) + 1

    def meta(self, maze: Maze | None = None, provenance: tuple[dict[str, Any], ...] = ()) -> Meta:
        """What is known of the dataset before it is collected; height and pitch are what is drawn."""
        columns = RUNNERS[self.body].columns
        return Meta(self.id, self.environment, columns=columns, position=(0, 1), provenance=provenance)


@dataclass(frozen=True)
class DatasetSpec(Config):
    """Everything that is set by dataset. The defaults are those of most published rows."""

    id: str
    columns: int  # of an observation
    episode_states: int  # states of a recorded episode
    environment: str | None = None
    collection: MazeCollection | RunnerCollection | NavigationCollection | EncodedScans | None = None  # if made here
    path_steps: int | None = None  # of the longest path across it, where lengths are derived from that
    # augmentation
    segment: int = 1 + SEGMENT_STEPS  # H, states of a segment [P]
    discount: float = 0.99  # gamma of the embedding and of the agents [S, O]
    stitches: int = 40  # segments per stitched trajectory [S]
    augmented_states: int = AUGMENTED_STATES  # of all stitched trajectories together, about [P]
    min_displacement: float | None = None  # between the ends of a segment, in units of the position columns [S]
    # planning
    waypoints: int | None = None  # of a plan, start and goal included [S]; None: as many as an episode has room for
    recorded_waypoints: int = 5  # of a plan where episodes are too short for that
    chunks: int | None = None  # of a composed plan [C]; None: as many as the distance takes
    controller: str = "gciql"  # the agent that follows plans [S]
    replan_every: int = 50  # environment steps between plans [S]
    replan_late: bool = False  # plan again when a subgoal takes longer than recorded episodes take to get that far
    lookahead: int = 10  # plan steps from one subgoal to the next [S]
    goal_tolerance: float = 1.0  # distance at which a subgoal counts as reached [S]
    ours: dict[str, Any] = field(default_factory=lambda: dict(_WHEN_LATE))  # fields that differ where not `paper`
    # agents
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)  # agent -> its settings by dotted path, as JSON [O]
    actor_goals: GoalMix | None = None  # where it is not the agents' default [O]
    # evaluation
    reference_limit: int = REGISTERED_LIMIT  # steps of an episode in the official code [S]
    reference_returns: tuple[float, float] | None = None  # of a random and an expert policy, for normalised returns
    minutes: dict[str, float] = field(default_factory=dict)  # stage -> expected on two cores at profile `laptop`

    def at(self, profile: str | None) -> DatasetSpec:
        """The settings at a profile: the published ones at `paper`; at the others ours."""
        return self if profile == "paper" else self.replace_all(self.ours)

    @property
    def step_limits(self) -> tuple[int, ...]:
        """The limits to report: OGBench's and, where it differs, that of the official code; or the one derived."""
        if self.path_steps is not None:
            return (self.reference_limit,)
        return tuple(sorted({REGISTERED_LIMIT, self.reference_limit}))

    @property
    def is_published(self) -> bool:
        """Whether the settings are a row of the table, not derived from data."""
        return self.id in SPECS

    @property
    def is_derived(self) -> bool:
        """Whether the settings are derived from the data alone: it is neither published nor of a maze."""
        return self.collection is None and not self.is_published

    def measured(self) -> str:
        """What was measured on the data, from which lengths were derived."""
        episodes = f"episodes of about {self.episode_states} states, {self.columns} columns"
        if self.path_steps is None:
            return episodes
        return f"{episodes}, about {self.path_steps:,} steps from one end of the data to the other"

    def with_path(self, steps: float | None) -> DatasetSpec:
        """The lengths of trajectories and plans that suit a longest path of this many steps."""
        if steps is None:
            return self
        waypoints = plan_waypoints(steps, self.segment - 1)
        return replace(
            self,
            path_steps=round(steps),
            waypoints=waypoints,
            stitches=2 * (waypoints - 1),  # as published: plans are half as long as what they are learned from
            discount=0.995 if steps > _FAR_STEPS else 0.99,
            reference_limit=REGISTERED_LIMIT * math.ceil(1.5 * steps / REGISTERED_LIMIT),
        )


# ------------------------------------------------------------------------------------------------------------- mazes

_SIZES: dict[Kind, tuple[int, int]] = {"stitch": (5000, 201), "navigate": (1000, 1001), "explore": (10000, 501)}
"""Episodes and states of each [O]."""
_PACES: dict[Body, float] = {"point": 0.15, "ant": 0.13}  # per step, over the windows of recorded data that move
_FAR_STEPS = 600  # from here on the discount is that of the giant maze
_NOISE: dict[Body, float] = {"point": 0.5, "ant": 0.2}  # [O]
_EXPLORE_NOISE = 1.0  # [O]
_REFERENCE_LIMITS = {  # [S]
    ("point", "giant", "stitch"): 2000,
    ("ant", "large", "stitch"): 2000,
    ("ant", "giant", "stitch"): 2000,
    ("ant", "medium", "explore"): 2000,
    ("ant", "large", "explore"): 2000,
}
_CHUNKS = {  # [C]
    ("point", "medium", "stitch"): 3,
    ("point", "large", "stitch"): 6,
    ("point", "giant", "stitch"): 8,
    ("ant", "medium", "stitch"): 3,
    ("ant", "large", "stitch"): 6,
    ("ant", "giant", "stitch"): 9,
    ("ant", "medium", "explore"): 5,
    ("ant", "large", "explore"): 6,
}
_AGENTS: dict[str, dict[str, dict[str, Any]]] = {  # [O], and the horizon of gcbc, which is ours
    "point": {
        "gciql": {"alpha": 0.003},
        "crl": {"alpha": 0.03},
        "qrl": {"alpha": 0.0003},
        "hiql": {"high_alpha": 3.0, "low_alpha": 3.0},
        "gcbc": {"horizon": 25},
    },
    "ant": {
        "gciql": {"alpha": 0.3},
        "crl": {"alpha": 0.1},
        "qrl": {"alpha": 0.003},
        "hiql": {"high_alpha": 3.0, "low_alpha": 3.0},
        "gcbc": {"horizon": 25},
    },
    "explore": {
        "gciql": {"alpha": 0.01},
        "crl": {"alpha": 0.003},
        "qrl": {"alpha": 0.001},
        "hiql": {"high_alpha": 10.0, "low_alpha": 10.0},
        "gcbc": {"horizon": 10},
    },
}
_OUR_ANTS: dict[Kind, dict[str, Any]] = {  # by trials on the oracle's paths with other seeds
    "stitch": {"controller": "gcbc", "goal_tolerance": 2.0},
    "navigate": {"controller": "gcbc"},
    "explore": {"controller": "gcbc"},
}
_MINUTES: dict[Body, dict[str, float]] = {
    "point": {"collect": 1, "augment": 6, "search": 1, "planner": 9, "agent": 3, "evaluate": 1},
    "ant": {"collect": 6, "augment": 8, "search": 1, "planner": 13, "agent": 3, "evaluate": 4},
}
_MINUTES_OF: dict[str, float] = {"augment synther": 30, "agent alone": 20, "planner cd": 18, "planner gsc": 18}


def maze_collection(body: Body, maze: str, kind: Kind) -> MazeCollection:
    """OGBench's protocol for a maze dataset."""
    episodes, states = (500, 2001) if (kind, maze) == ("navigate", "giant") else _SIZES[kind]
    noise = _EXPLORE_NOISE if kind == "explore" else _NOISE[body]
    return MazeCollection(episodes, states, body, maze, kind, noise)


def maze_spec(collection: MazeCollection) -> DatasetSpec:
    """The settings of a maze dataset; a custom maze has those of the medium one."""
    body, maze, kind = collection.body, collection.maze, collection.kind
    far = maze == "giant" or kind == "explore"  # trajectories and plans are twice as long
    ant_stitch = (body, kind) == ("ant", "stitch")
    return DatasetSpec(
        id=collection.id,
        columns=2 if body == "point" else 29,
        episode_states=collection.states,
        environment=collection.environment,
        collection=collection,
        discount=0.995 if maze == "giant" else 0.99,
        stitches=80 if far else 40,
        min_displacement=2.0,
        waypoints=41 if far else 21,
        recorded_waypoints=17 if kind == "explore" else 5,
        chunks=_CHUNKS.get((body, maze, kind)),
        controller="crl" if ant_stitch else "gciql",
        lookahead=5 if ant_stitch else 10,
        goal_tolerance=3.0 if ant_stitch else 1.0,
        agents=_AGENTS["explore" if kind == "explore" else body],
        actor_goals=GoalMix(current=0.0, trajectory=0.0, random=1.0, geometric=False) if kind == "explore" else None,
        ours=_WHEN_LATE | (_OUR_ANTS[kind] if body == "ant" else {}),
        reference_limit=_REFERENCE_LIMITS.get((body, maze, kind), REGISTERED_LIMIT),
        minutes=_MINUTES[body] | _MINUTES_OF,
    )


# -------------------------------------------------------------------------------------------------------- locomotion

_EPISODE_STATES = 1001  # Gymnasium ends an episode after 1000 steps
_RETURNS = {"hopper": (-20.272305, 3234.3), "walker2d": (1.629008, 4592.3)}  # of a random and an expert policy [D]
_RUNS = (  # D4RL has 1 M steps of medium data, 402,000 and 302,000 of replay; actors decide in how many episodes
    RunnerCollection(3150, _EPISODE_STATES, "hopper", "medium"),
    RunnerCollection(1830, _EPISODE_STATES, "walker2d", "medium"),
    RunnerCollection(3100, _EPISODE_STATES, "hopper", "medium-replay"),
    RunnerCollection(1825, _EPISODE_STATES, "walker2d", "medium-replay"),
)


def runner_spec(collection: RunnerCollection) -> DatasetSpec:
    """The settings of a locomotion dataset: segments of 4 states, stitched to trajectories of 1000 steps [P]."""
    return DatasetSpec(
        id=collection.id,
        columns=len(RUNNERS[collection.body].columns),
        episode_states=collection.states,
        environment=collection.environment,
        collection=collection,
        segment=4,
        stitches=333,
        augmented_states=2_000_000,
        replan_every=1,
        ours={},
        reference_returns=_RETURNS[collection.body],
        minutes={"collect": 10, "augment": 40, "planner": 20, "evaluate": 15},
    )


# -------------------------------------------------------------------------------------------------------- navigation

_LOGS = (  # starts and goals at most 5 m apart [P]; the sizes and the noise are ours
    NavigationCollection(2500, 101, "navigation-corridor-v0", (3, 5), noise=0.3),
    NavigationCollection(4000, 101, "navigation-building-v0", (3, 5), noise=0.3),
    NavigationCollection(2500, 101, "navigation-corridor-people-v0", (3, 5), noise=0.3),
    NavigationCollection(4000, 101, "navigation-building-people-v0", (3, 5), noise=0.3),
)
_STATES = {"latent": (), "pose": ("odometry_x", "odometry_y", "odometry_yaw")}
"""What is kept in the state beside the latents of the scan, by variant; [P] names the latents and nothing else."""


def encoded_scans(logs: NavigationCollection, variant: str) -> EncodedScans:
    """The states of a variant that are made of logs."""
    return EncodedScans(logs.episodes, logs.states, logs, variant, _STATES[variant])


def navigation_spec(collection: NavigationCollection | EncodedScans) -> DatasetSpec:
    """The settings of a robot's dataset, all ours: what the paper says of its own is in the collections."""
    is_building = WORLDS[collection.environment].plan == "building"
    return DatasetSpec(
        id=collection.id,
        columns=len(collection.meta().columns),
        episode_states=collection.states,
        environment=collection.environment,
        collection=collection,
        discount=0.995,
        stitches=80 if is_building else 40,  # as many steps as an episode may take, as in the mazes
        augmented_states=1_000_000,
        min_displacement=None,  # what gets nowhere turns on the spot, and whoever starts with any heading has to
        ours={},
        reference_limit=2000 if is_building else REGISTERED_LIMIT,
        minutes={"collect": 4, "augment": 18, "agent": 25, "evaluate": 4},
    )


SPECS: dict[str, DatasetSpec] = {
    spec.id: spec
    for spec in [
        DatasetSpec(toy.ID, columns=2, episode_states=EPISODE_STATES, environment=toy.ENVIRONMENT),
        *(maze_spec(maze_collection("point", maze, kind)) for kind in ("stitch", "navigate") for maze in MAZES),
        *(maze_spec(maze_collection("ant", maze, kind)) for kind in ("stitch", "navigate") for maze in MAZES),
        *(maze_spec(maze_collection("ant", maze, "explore")) for maze in ("medium", "large", "teleport")),
        *map(runner_spec, _RUNS),
        *map(navigation_spec, _LOGS),
        *(navigation_spec(encoded_scans(logs, variant)) for logs in _LOGS for variant in _STATES),
    ]
}
"""Every dataset that is known by id."""

_MAZE_ID = re.compile(rf"({'|'.join(get_args(Body))})maze-(\w[\w.-]*)-({'|'.join(get_args(Kind))})-v0")


def custom_collection(dataset: str) -> MazeCollection:
    """The protocol of a dataset of one's own in a custom maze, by an id that no dataset of the benchmark has."""
    if not (match := _MAZE_ID.fullmatch(dataset)):
        raise BadInput(
            f"{dataset}: with --maze the id must look like pointmaze-NAME-stitch-v0 or antmaze-NAME-explore-v0"
        )
    body, name, kind = match.groups()
    if name in MAZES:
        own = f"{body}maze-my{name}-{kind}-v0"
        raise BadInput(f"{dataset}: {name} is a maze of the benchmark; give yours another name, such as {own}")
    return maze_collection(body, name, kind)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------ look-up


def spec_of(data: Trajectories) -> DatasetSpec:
    """The settings for a dataset: its row of the table, those of its kind of maze, or derived from the data itself."""
    spec = spec_of_meta(data.meta, data.observations.shape[1], int(np.median(data.lengths)))
    if spec.is_published:
        return spec
    spec = replace(spec, augmented_states=augmented_states(data.rows))
    return _derived(data, spec) if spec.is_derived else spec


def segment_of(data: Trajectories) -> int:
    """States of a segment of a dataset, without looking at its states, which may be broken."""
    spec = spec_of_meta(data.meta, data.observations.shape[1], int(np.median(data.lengths)))
    return segment_states(data.lengths) if spec.is_derived else spec.segment


def spec_of_meta(meta: Meta, columns: int, episode_states: int) -> DatasetSpec:
    """The settings for data of which this much is known; what is derived follows from columns and episode length."""
    known = SPECS.get(meta.dataset or "")
    if known is not None and known.environment == meta.environment and not meta.maze:
        return known
    if meta.maze and (match := _MAZE_ID.fullmatch(meta.dataset or "")):
        body, maze, kind = match.groups()  # a custom maze may be called giant without being so
        own = maze_collection(body, maze, kind)  # type: ignore[arg-type]
        medium = maze_spec(maze_collection(body, "medium", kind))  # type: ignore[arg-type]
        spec = replace(medium, id=own.id, environment=own.environment, collection=own, chunks=None)
        return spec.with_path(_longest_way(meta) / _PACES[body])  # type: ignore[index]
    return DatasetSpec(meta.dataset or "own data", columns, episode_states, meta.environment)


def _derived(data: Trajectories, spec: DatasetSpec) -> DatasetSpec:
    """Lengths of segments, trajectories and plans that are measured on the data itself."""
    segment = segment_states(data.lengths)
    return replace(spec, segment=segment).with_path(path_steps(data, segment))


def _longest_way(meta: Meta) -> float:
    """Length of the longest shortest path in the maze of a dataset, in units of its positions."""
    maze = maze_of(meta)
    assert maze is not None
    return maze.unit * max(float(maze.distances(cell).max()) for cell in maze.cells)
