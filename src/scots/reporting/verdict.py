"""The verdict on augmented data: what it is good for, and the measures that decided it.

All limits are in `LIMITS`; docs/report.md says where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from scots.core.config import Config
from scots.reporting.dynamics import Dynamics, Residual
from scots.reporting.fidelity import Motion, OnData
from scots.reporting.lineage import Kept
from scots.reporting.metrics import Clearance, EqualCoverage

GOOD, PLANNING_ONLY, UNUSABLE = "good", "usable for planning, not for agents", "do not use"

LIMITS: dict[str, tuple[float, float | None]] = {  # measure -> from where on not for agents, not even for planning
    "off": (0.05, 0.10),  # share of states off the data
    "off_positions": (0.02, 0.10),  # share of positions off the data
    "near_walls": (0.005, 0.05),  # share of states nearer to a wall than any recorded state
    "coverage": (0.7, 0.7),  # at least: recorded fine cells visited, of those that as many recorded states visit
    "motion": (0.25, 0.5),  # Wasserstein distance of step lengths from recorded ones, in the median of these
    "dynamics": (0.01, None),  # Dynamic MSE per step, of the mean square of a recorded step
    "dynamics_joins": (0.05, None),  # median Dynamic MSE at joins, likewise
    "actions": (0.05, None),  # without a simulator: error of labelled actions per step, of the variance of actions
    "gap": (2.0, None),  # without a simulator: step across refined joins, in recorded steps, of the worst columns
}
"""Each is a maximum, but for coverage. Shares off the data may also be twice those of held-out recorded states."""


@dataclass(frozen=True)
class Check(Config):
    """One measure beside its limits."""

    measure: str  # its key in LIMITS
    value: float
    agents: float  # limit for data that agents learn from
    planning: float | None  # limit for data that planners learn from; none where it does not matter to them
    finding: str  # in words

    @property
    def outcome(self) -> str:
        """What the data can be used for by this measure alone."""
        if self.planning is not None and self.excess(self.planning) > 1:
            return UNUSABLE
        return PLANNING_ONLY if self.excess(self.agents) > 1 else GOOD

    def excess(self, limit: float) -> float:
        """How far beyond a limit the value is; 1 is at the limit."""
        first, second = (limit, self.value) if self.measure == "coverage" else (self.value, limit)
        return first / second if second > 0 else float("inf")


@dataclass(frozen=True)
class Verdict(Config):
    """What augmented data can be used for."""

    label: str  # GOOD, PLANNING_ONLY or UNUSABLE
    reasons: tuple[str, ...]  # findings that decided it, the worst first
    checks: tuple[Check, ...]

    @property
    def headline(self) -> str:
        """The verdict and what decided it, on one line."""
        return self.label if self.label == GOOD else f"{self.label}: {self.reasons[0]}"


@dataclass(frozen=True)
class Evidence:
    """The measures that a verdict rests on; what was not measured is None."""

    on_data: OnData
    coverage: EqualCoverage
    clearance: Clearance | None
    motion: Motion | None
    dynamics: Dynamics | None
    kept: Kept | None
    residual: Residual | None


def judge(evidence: Evidence) -> Verdict:
    """The worst that any measure says, and the measures that say so; if all are good, the three nearest to a limit."""
    checks = (*_state_checks(evidence), *_action_checks(evidence))
    for label in (UNUSABLE, PLANNING_ONLY, GOOD):
        decided = [check for check in checks if check.outcome == label]
        if decided:
            decided.sort(key=lambda check: check.excess(check.agents), reverse=True)
            return Verdict(label, tuple(check.finding for check in decided[:3]), checks)
    raise AssertionError("states are always compared with the data")


def _check(measure: str, value: float, finding: str, recorded: float = 0.0) -> Check:
    """A check by `LIMITS`, or by twice what held-out recorded states have."""
    agents, planning = LIMITS[measure]
    planning = None if planning is None else max(planning, 2 * recorded)
    return Check(measure, value, max(agents, 2 * recorded), planning, finding)


def _state_checks(evidence: Evidence) -> Iterator[Check]:
    on, walls, coverage = evidence.on_data, evidence.clearance, evidence.coverage
    if on.off != on.off_positions:  # states may be nothing but positions
        yield _check("off", on.off, f"{_percent(on.off)} of states lie off the data", on.recorded_off)
    words = f"{_percent(on.off_positions)} of positions lie off the data"
    yield _check("off_positions", on.off_positions, words, on.recorded_off_positions)
    if walls:
        words = f"{_percent(walls.nearer_than_any)} of states are nearer to a wall than any recorded state"
        yield _check("near_walls", walls.nearer_than_any, words)
    share = coverage.augmented / coverage.original
    words = f"{_percent(share)} of the recorded fine cells are visited, at equal numbers of states"
    yield _check("coverage", share, words)
    if evidence.motion and (moved := evidence.motion.step_length.wasserstein) is not None:
        yield _check("motion", moved, f"step lengths differ from recorded ones by {_percent(moved)} of their median")


def _action_checks(evidence: Evidence) -> Iterator[Check]:
    dynamics, kept, residual = evidence.dynamics, evidence.kept, evidence.residual
    if dynamics and dynamics.one_step > 0:
        share = dynamics.typical / dynamics.one_step
        yield _check("dynamics", share, f"Dynamic MSE per step is {_percent(share)} of a recorded step's square")
        if dynamics.refined_joins:
            share = dynamics.refined_joins.quantiles.median / dynamics.one_step
            words = f"Dynamic MSE at joins is {_percent(share)} of a recorded step's square"
            yield _check("dynamics_joins", share, words)
    elif kept and kept.actions is not None:
        if residual and residual.variance > 0:
            share = (1 - kept.actions) * residual.error / residual.variance
            yield _check("actions", share, f"labelled actions err by {_percent(share)} of the variance of actions")
        if kept.refined_gap:
            group, gap = max(kept.refined_gap.items(), key=lambda item: item[1])
            yield _check("gap", gap, f"steps across joins change {group} {gap:.1f} times as much as recorded steps")


def _percent(share: float) -> str:
    """Two significant digits, but no more than two after the point: 0.04 %, 3.6 %, 23 %."""
    digits = 0 if share >= 0.0995 else 1 if share >= 0.001 else 2
    return f"{100 * share:.{digits}f} %"
