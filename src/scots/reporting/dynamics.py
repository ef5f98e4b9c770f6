"""Dynamic MSE: how far next states are from where the simulator gets by the actions; and inverse dynamics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scots.augmenters.refinement import InverseDynamics, unit_quaternions
from scots.core.config import Config
from scots.core.errors import BadInput
from scots.data.manifold import column_changes
from scots.data.trajectories import Array, Meta, Trajectories
from scots.envs import environment_class
from scots.envs.locomotion import Locomotion
from scots.envs.ogbench import make_simulator, seed_simulator
from scots.reporting.lineage import column_groups, join_rows, kept_steps, one_step_squares, places_of
from scots.reporting.metrics import Distribution, sample_rows


@dataclass(frozen=True)
class Dynamics(Config):
    """Dynamic MSE: squared distance between the next state and where the simulator gets by the action."""

    unrefined_joins: Distribution | None  # none without lineage
    refined_joins: Distribution | None
    inside: Distribution | None  # augmented steps that are not known to be joins
    generated: Distribution | None  # those of them that begin or end at a state which refinement made
    kept: Distribution | None  # those that are recorded transitions
    recorded: Distribution  # original steps and their actions: the floor that rounding leaves
    relabelled: Distribution | None  # original steps by inverse dynamics: the floor that labelling leaves
    one_step: float  # mean squared distance of recorded states one step apart: the error of standing still
    shares: dict[str, float]  # kind of augmented step -> its share of all steps
    means: dict[str, float]  # kind of step -> mean, which is dominated by the worst steps
    groups: dict[str, dict[str, float]]  # kind of step -> group of columns -> median, in its mean squared step
    places: tuple[float, ...]  # median by steps after the join, which is the first; empty where it is unknown

    @property
    def whole(self) -> float:
        """Mean over all augmented steps."""
        return sum(share * self.means[kind] for kind, share in self.shares.items())

    @property
    def typical(self) -> float:
        """The medians of all kinds of augmented steps, weighted by how many steps are of that kind."""
        found = {kind: getattr(self, kind).quantiles.median for kind in self.shares}
        return sum(share * found[kind] for kind, share in self.shares.items())


@dataclass(frozen=True, eq=False)
class _Errors:
    """Errors of simulated steps: their squares by column, and the Dynamic MSE of each step."""

    columns: Array  # (B, O): angles the short way around, quaternions by the nearer of both signs
    total: Array  # (B,)

    def select(self, chosen: Array) -> _Errors:
        return _Errors(self.columns[chosen], self.total[chosen])


@dataclass(frozen=True, eq=False)
class _Simulation:
    """The simulator of a dataset, which takes steps of it."""

    environment: Any
    meta: Meta

    def errors(self, pairs: Array, actions: Array) -> _Errors:
        """Errors of steps between two states (B, 2, O) by actions (B, A)."""
        reached = simulate(self.environment, pairs[:, 0], actions, self.meta.quaternions)
        changes = column_changes(reached, pairs[:, 1], self.meta)
        return _Errors(np.square(changes), np.square(reached - pairs[:, 1]).sum(axis=1))

    def errors_at(self, data: Trajectories, rows: Array) -> _Errors:
        """Errors of the steps of a dataset that begin at these rows, by its own actions."""
        assert data.actions is not None
        return self.errors(data.windows(rows, 2), data.actions[rows])


def measure_dynamics(
    data: Trajectories,
    aug: Trajectories,
    inverse: InverseDynamics | None,
    counts: tuple[int, int],
    rng: np.random.Generator,
    segment: int | None = None,
) -> Dynamics | None:
    """Dynamic MSE; None without actions, steps or the environment.

    `counts` are the steps simulated of each kind and at each place of a segment. Steps over joins that are not refined
    have no actions of their own: they get those of the inverse dynamics, or those of the refined step where there is no
    such model.
    """
    environment, (joins, others) = simulator_of(data), join_rows(aug)
    if environment is None or data.actions is None or aug.actions is None or not len(joins) + len(others):
        return None
    if not isinstance(environment, Locomotion):  # nothing is drawn in a step of a runner
        seed_simulator(environment, rng)
    simulation = _Simulation(environment, data.meta)
    at_joins, inside = (sample_rows(rows, counts[0], rng) for rows in (joins, others))
    rows = data.random_rows(2, counts[0], rng)
    kinds = {"recorded": simulation.errors_at(data, rows)}
    if inverse:
        labels = inverse.label(data.observations[rows], data.observations[rows + 1])
        kinds["relabelled"] = simulation.errors(data.windows(rows, 2), labels)
    shares = {}
    if aug.source is not None and len(at_joins):
        across = data.observations[np.stack([aug.source[at_joins], aug.source[at_joins + 1]], axis=1)]
        kinds["unrefined_joins"] = simulation.errors(
            across, inverse.label(across[:, 0], across[:, 1]) if inverse else aug.actions[at_joins]
        )
        kinds["refined_joins"] = simulation.errors_at(aug, at_joins)
        shares["refined_joins"] = len(joins) / (len(joins) + len(others))
    if len(inside):
        kinds["inside"] = simulation.errors_at(aug, inside)
        for kind, chosen in _parts(data, aug, inside):
            shares[kind] = float(chosen.mean()) * len(others) / (len(joins) + len(others))
            kinds[kind] = kinds["inside"].select(chosen)
    places = [simulation.errors_at(aug, found).total for found in _rows_by_place(aug, segment, counts[1], rng)]
    return _summarised(data, kinds, shares, tuple(float(np.median(found)) for found in places))


def _parts(data: Trajectories, aug: Trajectories, inside: Array) -> Iterator[tuple[str, Array]]:
    """Which of the steps inside segments are kept and which touch generated states; all of them without lineage."""
    kept = kept_steps(data, aug, inside)
    if aug.source is None:
        yield "inside", np.ones(len(inside), dtype=bool)
        return
    for kind, chosen in (("kept", kept), ("generated", ~kept)):
        if chosen.any():
            yield kind, chosen


def _rows_by_place(aug: Trajectories, segment: int | None, count: int, rng: np.random.Generator) -> Iterator[Array]:
    rows = aug.window_starts(2)
    places = places_of(aug, rows, segment)
    if places is not None and segment is not None and (places == segment - 2).any():
        for place in range(segment - 1):
            yield sample_rows(rows[places == place], count, rng)


def _summarised(
    data: Trajectories, kinds: dict[str, _Errors], shares: dict[str, float], places: tuple[float, ...]
) -> Dynamics:
    names = ("unrefined_joins", "refined_joins", "inside", "generated", "kept", "recorded", "relabelled")
    found: dict[str, Any] = {name: Distribution.of(kinds[name].total) if name in kinds else None for name in names}
    groups = column_groups(data.meta, data.observations.shape[1])
    units = one_step_squares(data, groups)
    by_group = {
        kind: {
            group: float(np.median(errors.columns[:, members].sum(axis=1)) / units[group])
            for group, members in groups.items()
            if units[group] > 0
        }
        for kind, errors in kinds.items()
    }
    means = {kind: float(errors.total.mean()) for kind, errors in kinds.items()}
    return Dynamics(**found, one_step=sum(units.values()), shares=shares, means=means, groups=by_group, places=places)


def simulator_of(data: Trajectories) -> Any:
    """The simulator whose states a dataset's observations are; None if there is none, or it is not installed."""
    try:
        if environment_class(data.meta) is Locomotion:
            (runner,) = Locomotion.make(data.meta, 1)
            return runner
        environment = make_simulator(data.meta)
    except BadInput:
        return None
    return environment if environment.get_ob().size == data.observations.shape[1] else None


def simulate(environment: Any, states: Array, actions: Array, quaternions: tuple[int, ...] = ()) -> Array:
    """Where the simulator gets from each state (B, O) by each action (B, A) in one step: (B, O) float64.

    A state is qpos followed by qvel; qpos alone is at rest. Those of runners leave out where they are along the track.
    """
    if isinstance(environment, Locomotion):
        pairs = zip(states.astype(np.float64), actions, strict=True)
        return np.stack([environment.step_from(*pair).observation for pair in pairs]).astype(np.float64)
    states = unit_quaternions(states.astype(np.float64), quaternions)
    positions, velocities = environment.model.nq, environment.model.nv
    reached = np.empty_like(states)
    for number, (state, action) in enumerate(zip(states, actions.astype(np.float64), strict=True)):
        environment.data.qacc_warmstart[:] = 0  # otherwise the solver would remember the row before
        velocity = state[positions:] if len(state) > positions else np.zeros(velocities)
        environment.set_state(state[:positions], velocity)
        reached[number] = environment.step(action)[0]
    return reached


@dataclass(frozen=True)
class Residual(Config):
    """How well inverse dynamics predict recorded actions."""

    transitions: int  # measured
    held_out: bool  # from the validation twin, not from what the model was trained on
    error: float  # mean squared error of an action's component
    variance: float  # of the recorded components: the error of always predicting their mean


def measure_residual(
    data: Trajectories, inverse: InverseDynamics, held_out: bool, count: int, rng: np.random.Generator
) -> Residual:
    """Error of predicting recorded actions from the states before and after them."""
    assert data.actions is not None
    rows = data.random_rows(2, count, rng)
    error = inverse.label(data.observations[rows], data.observations[rows + 1]) - data.actions[rows]
    return Residual(count, held_out, float(np.square(error).mean()), float(data.actions[rows].var(axis=0).mean()))
