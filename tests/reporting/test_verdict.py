"""The verdict: each limit decides by itself, and no measure that gets worse makes it better."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scots.reporting.dynamics import Dynamics, Residual
from scots.reporting.fidelity import Compared, Motion, OnData
from scots.reporting.lineage import Kept
from scots.reporting.metrics import Clearance, Distribution, EqualCoverage, Quantiles
from scots.reporting.verdict import GOOD, LIMITS, PLANNING_ONLY, UNUSABLE, Evidence, Verdict, judge

ORDER = (GOOD, PLANNING_ONLY, UNUSABLE)
SPREAD = Quantiles.of(np.ones(2))


def on_data(off: float = 0.01, off_positions: float = 0.005, recorded: float = 0.01) -> OnData:
    return OnData(1000, 1.0, 1.0, SPREAD, SPREAD, off, off_positions, None, recorded, recorded, 0.99)


def walls(share: float = 0.0) -> Clearance:
    return Clearance(0.7, 0.8, 0.7, 0.8, share, share)


def dynamics(joins: float = 0.01, kept: float = 0.0) -> Dynamics:
    """A tenth of all steps are joins; recorded steps have a mean square of 1."""
    steps = {"refined_joins": joins, "kept": kept}
    kinds = {kind: Distribution.of(np.full(3, value)) for kind, value in steps.items()}
    absent = dict.fromkeys(("unrefined_joins", "inside", "generated", "relabelled"))
    shares = {"refined_joins": 0.1, "kept": 0.9}
    recorded = Distribution.of(np.zeros(3))
    return Dynamics(
        **kinds, **absent, recorded=recorded, one_step=1.0, shares=shares, means=steps, groups={}, places=()
    )


def motion(factor: float = 1.0) -> Motion:
    """Steps of length 1, and of another length."""
    return Motion(Compared.of(np.ones(3), np.full(3, factor)), None)


def kept(actions: float | None = 0.75, gap: float = 1.0) -> Kept:
    return Kept(0.75, actions, None, {}, {"position": gap, "angles": 0.1}, {"position": gap, "angles": 0.1})


CLEAN = Evidence(on_data(), EqualCoverage(100, 1000, 1.0, 0.95), walls(), motion(), dynamics(), kept(), None)
WITHOUT_SIMULATOR = replace(CLEAN, dynamics=None, residual=Residual(100, True, 0.1, 1.0))


def test_clean_data_is_good_and_says_what_came_nearest_to_a_limit():
    found = judge(CLEAN)
    assert (found.label, found.headline) == (GOOD, "good")
    assert len(found.reasons) == 3
    assert found.reasons[0].startswith("95 % of the recorded fine cells")
    assert Verdict.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("spoiled", "headline"),
    [
        ({"on_data": on_data(off=0.23)}, "do not use: 23 % of states lie off the data"),
        ({"on_data": on_data(off=0.07)}, f"{PLANNING_ONLY}: 7.0 % of states lie off the data"),
        ({"on_data": on_data(off=0.04)}, "good"),
        ({"on_data": on_data(off=0.11, off_positions=0.11)}, "do not use: 11 % of positions lie off the data"),
        ({"on_data": on_data(off=0.07, recorded=0.04)}, "good"),  # within twice that of recorded states
        (
            {"clearance": walls(0.036)},
            f"{PLANNING_ONLY}: 3.6 % of states are nearer to a wall than any recorded state",
        ),
        ({"clearance": walls(0.06)}, "do not use: 6.0 % of states are nearer to a wall than any recorded state"),
        (
            {"coverage": EqualCoverage(100, 1000, 0.8, 0.4)},
            "do not use: 50 % of the recorded fine cells are visited, at equal numbers of states",
        ),
        ({"motion": motion(1.3)}, f"{PLANNING_ONLY}: step lengths differ from recorded ones by 30 % of their median"),
        ({"motion": motion(2.5)}, "do not use: step lengths differ from recorded ones by 150 % of their median"),
        ({"motion": motion(0.8)}, "good"),
        (
            {"dynamics": dynamics(joins=0.06)},
            f"{PLANNING_ONLY}: Dynamic MSE at joins is 6.0 % of a recorded step's square",
        ),
        (
            {"dynamics": dynamics(kept=0.02)},
            f"{PLANNING_ONLY}: Dynamic MSE per step is 1.9 % of a recorded step's square",
        ),
    ],
)
def test_each_measure_decides_by_itself(spoiled: dict[str, object], headline: str):
    assert judge(replace(CLEAN, **spoiled)).headline == headline


def test_without_a_simulator_labels_and_gaps_decide():
    assert judge(WITHOUT_SIMULATOR).label == GOOD
    poor_labels = replace(WITHOUT_SIMULATOR, residual=Residual(100, True, 0.4, 1.0))
    assert judge(poor_labels).headline == (
        f"{PLANNING_ONLY}: labelled actions err by 10 % of the variance of actions"  # a quarter of them is labelled
    )
    wide = replace(WITHOUT_SIMULATOR, kept=kept(gap=4.0))
    assert judge(wide).headline == (
        f"{PLANNING_ONLY}: steps across joins change position 4.0 times as much as recorded steps"
    )
    without_actions = replace(wide, kept=kept(None, gap=4.0))
    assert judge(without_actions).label == GOOD  # there is nothing that agents could learn


def test_the_worst_measure_comes_first():
    found = judge(replace(CLEAN, on_data=on_data(off=0.2, off_positions=0.15), clearance=walls(0.03)))
    assert found.label == UNUSABLE
    assert [words.partition(" of ")[0] for words in found.reasons] == ["15 %", "20 %"]


@given(
    off=st.floats(0, 1), near=st.floats(0, 1), lost=st.floats(0, 1), joins=st.floats(0, 1), worse=st.floats(0.01, 0.5)
)
def test_nothing_that_gets_worse_makes_the_verdict_better(
    off: float, near: float, lost: float, joins: float, worse: float
):
    def rank(off: float, near: float, lost: float, joins: float) -> int:
        coverage = EqualCoverage(100, 1000, 1.0, max(0.0, 1 - lost))
        return ORDER.index(
            judge(Evidence(on_data(off), coverage, walls(near), None, dynamics(joins), None, None)).label
        )

    before = rank(off, near, lost, joins)
    changes = [(worse, 0, 0, 0), (0, worse, 0, 0), (0, 0, worse, 0), (0, 0, 0, worse)]
    after = [rank(off + a, near + b, lost + c, joins + d) for a, b, c, d in changes]
    assert min(after) >= before


def test_limits_for_planning_are_never_stricter():
    for name, (agents, planning) in LIMITS.items():
        assert planning is None or (planning <= agents if name == "coverage" else planning >= agents)


def test_the_documented_limits_are_those_of_the_code():
    lines = (Path(__file__).parents[2] / "docs" / "report.md").read_text().splitlines()
    table = lines[lines.index("| measure | limit for agents | limit for planning |") + 2 :][: len(LIMITS)]

    def number(words: str) -> float | None:
        found = re.search(r"([\d.]+)( %)?", words)
        return None if found is None else float(found[1]) / (100 if found[2] else 1)

    documented = [tuple(number(cell) for cell in line.strip("| ").split(" | ")[1:]) for line in table]
    assert documented == [pytest.approx(limits) for limits in LIMITS.values()]
