"""Why episodes failed and what planning cost, below the tables that ask for it."""

from typing import Any

import pytest
from result_rows import a_row_of

from scots.experiments.tables import TABLES
from scots.reporting.breakdown import cost_table, failures_table
from scots.reporting.success import result_tables

GIANT = "pointmaze-giant-stitch-v0"
COST = {"calls": 4.0, "plans": 20.0, "seconds": 2.0, "network_calls": 120.0, "sequences": 3000.0}


def a_row(column: str = "SCoTS", **changes: Any) -> dict[str, Any]:
    return a_row_of("planning", column, GIANT, **({"max_steps": 2000} | changes))


def test_failures_are_shares_of_all_episodes_and_the_most_frequent_cause_stands_first():
    rows = [
        a_row(task=1, failures={"stuck": 1, "out of time": 4}),
        a_row(task=2, failures={"out of time": 5}),
        a_row(task=2, failures={"fell": 50}, max_steps=1000),  # the smaller limit is not shown
        a_row("HD", failures={}),
    ]
    block = failures_table(TABLES["planning"], rows)
    assert list(block.header) == ["dataset", "method", "episodes", "failed", "out of time", "stuck"]
    assert block.rows == [[GIANT, "SCoTS", "100", "10.0", "9.0", "1.0"]]


def test_the_distance_per_step_stands_beside_failures_where_it_is_known():
    rows = [a_row(task=task, failures={"fell": 1}, speed=speed) for task, speed in ((1, 0.25), (2, 0.15))]
    block = failures_table(TABLES["planning"], rows)
    assert (block.header[-1], block.rows[0][-1]) == ("distance per step", "0.200")


def test_an_evaluation_costs_what_any_of_its_rows_says():
    """Rows of all tasks repeat the cost of the whole; evaluations of other seeds add theirs."""
    rows = [a_row(task=task, planning=COST) for task in range(1, 6)]
    rows += [a_row(task=task, planning=COST | {"seconds": 4.0}, seed=1) for task in range(1, 6)]
    expected = [GIANT, "SCoTS", "0.1", "5", "0.75", "150.0", "150"]  # 40 plans in 8 calls, 6 seconds, 500 episodes
    assert cost_table(TABLES["planning"], rows).rows == [expected]


@pytest.mark.parametrize(("row", "blocks"), [({}, 1), ({"planning": COST}, 2), ({"failures": {"fell": 1}}, 2)])
def test_details_without_anything_to_show_are_left_out(row: dict[str, Any], blocks: int):
    old = {name: value for name, value in a_row().items() if name not in ("failures", "planning", "speed")}
    assert len(result_tables(TABLES["planning"], [old | row])) == blocks


def test_planners_without_networks_have_no_network_calls():
    row = a_row_of("without_diffusion", "oracle", GIANT, max_steps=2000, planning=COST | {"sequences": 0.0})
    assert cost_table(TABLES["without_diffusion"], [row]).rows[0][-1] == "-"
