"""Cells of result tables: success rates, and returns where there is no goal to succeed in."""

from typing import Any

import numpy as np
import pytest
from result_rows import a_row_of

from scots.datasets import toy
from scots.datasets.specs import SPECS
from scots.envs import tasks_of
from scots.envs.navigation import DISTANCES
from scots.evaluation import results
from scots.evaluation.results import EvalResult, Subject
from scots.evaluation.rollout import Episode
from scots.experiments.tables import TABLES
from scots.reporting.success import comparison_table, measured, result_tables, success_table


def a_row(**changes: Any) -> EvalResult:
    return EvalResult.from_dict(a_row_of("planning", "SCoTS", **changes))


def test_tasks_with_goals_show_successes():
    table = success_table([a_row(task=1, successes=50, steps=40.0), a_row(task=2, successes=0, steps=None)])
    assert table.rows == [["1", "50 of 50", "40"], ["2", "0 of 50", "-"], ["all, %", "50.0 [46.4, 53.5]", ""]]


def test_tasks_without_goals_show_returns():
    """They once showed no successes, as if each episode had failed."""
    without = {"successes": None, "steps": None}
    rows = [
        a_row(task=task, mean_return=mean, normalized_return=share, **without)
        for task, mean, share in ((1, 812.31, 63.12), (2, 800.0, 60.0))
    ]
    assert success_table(rows).rows == [
        ["1", "return 812.3 (63.1 normalised)", "-"],
        ["2", "return 800.0 (60.0 normalised)", "-"],
        ["all", "return 806.2 (61.6 normalised)", ""],
    ]
    unknown = success_table([a_row(mean_return=5.0, normalized_return=None, **without)])
    assert [line[1] for line in unknown.rows] == ["return 5.0"] * 2
    row = a_row_of("replanning", "SCoTS", mean_return=5.0, normalized_return=50.0, **without)
    shown = comparison_table(TABLES["replanning"], [row]).markdown()
    assert "**return 5.0 (50.0 normalised)**" in shown


def test_returns_of_all_episodes_give_an_interval():
    """Of two values in equal numbers; the interval is that of the mean of 100 draws, in normalised units."""
    low, high = SPECS["hopper-medium-v2"].reference_returns
    returns = [low, high] * 50
    row = a_row(
        dataset="hopper-medium-v2", successes=None, steps=None, mean_return=float(np.mean(returns)),
        normalized_return=50.0, returns=returns,
    )  # fmt: skip
    shown = success_table([row]).rows[0][1]
    ends = [float(end) for end in shown.partition("[")[2].partition("]")[0].split(",")]
    assert ends == pytest.approx([50 - 1.96 * 5, 50 + 1.96 * 5], abs=1.1)  # the deviation of the mean is 50 / 10
    assert EvalResult.from_dict(row.to_dict()) == row


def test_the_table_of_locomotion_has_the_papers_numbers_beside_ours():
    table = TABLES["locomotion"]
    assert table.published["hopper-medium-v2"] == {"Diffuser": "74.3±1.4", "Diffuser+SCoTS": "93.5±1.2"}
    means = [
        np.mean([float(own[name].partition("±")[0]) for own in table.published.values()]) for name in table.columns
    ]
    assert means == pytest.approx([79.5, 87.2], abs=0.06)  # the averages that the paper prints
    for column, augmenter in (("Diffuser", None), ("Diffuser+SCoTS", "scots")):
        for dataset in table.published:
            recipe = table.recipe(column, dataset, "laptop")
            assert (recipe.augmenter, recipe.planner, recipe.agent) == (augmenter, "diffuser", None)
            assert recipe.resolve(SPECS[dataset], "laptop").following.replan_every == 1


def test_the_table_of_navigation_averages_far_goals_and_shows_all_distances():
    table, dataset = TABLES["navigation"], "navigation-corridor-pose-v0"
    assert table.published[dataset] == {"HIQL": "0±0", "HIQL+SCoTS": "31±5"}
    assert table.published["navigation-building-latent-v0"] == {"HIQL": "27±7", "HIQL+SCoTS": "53±4"}
    for (low, high), label in zip(DISTANCES, table.tasks.values(), strict=True):
        assert label.startswith(f"{low} m and more" if high == DISTANCES[-1][1] else f"{low} to {high} m")
    outcomes = {1: 50, 2: 30, 3: 20, 4: 10}
    failed = {"collision": 5, "out of time": 15}
    rows = [
        a_row_of("navigation", "HIQL+SCoTS", dataset, task=task, successes=successes, failures=failed)
        for task, successes in outcomes.items()
    ]
    comparison, by_task = result_tables(table, rows)
    assert "**40.0 [" in comparison.markdown()  # of tasks 2 to 4
    assert by_task.rows == [
        [dataset, "1000", "HIQL+SCoTS", "100, collision 10", "60, collision 10", "40, collision 10", "20, collision 10"]
    ]
    assert len(result_tables(TABLES["planning"], [])) == 1


@pytest.mark.parametrize(
    ("goals", "successes"), [((None, None), None), ((None, np.ones(2)), 1), ((np.ones(2),) * 2, 1)]
)
def test_successes_are_counted_where_there_are_goals(
    monkeypatch: pytest.MonkeyPatch, goals: Any, successes: int | None
):
    meta = toy.make(episodes=1).meta
    (task,) = tasks_of(meta, [1])
    rewards = np.full(3, 2.0)
    done = [Episode(task, n, goal is not None and n == 1, 3, rewards, goal, None) for n, goal in enumerate(goals)]
    monkeypatch.setattr(results, "run_episodes", lambda *_, **__: done)
    subject = Subject(None, meta, {}, "smoke", 0, (5,), reference_returns=(0.0, 12.0))
    (row,) = results.evaluate(subject, [task], episodes=2)
    assert (row.successes, row.mean_return, row.normalized_return) == (successes, 6.0, 50.0)


def test_what_was_measured_of_a_comparison_are_rows_and_columns_with_results_of_ours():
    dataset = "pointmaze-giant-stitch-v0"
    whole = comparison_table(TABLES["planning"], [a_row_of("planning", "SCoTS", dataset)])
    block = measured(whole)
    [cell] = [row[whole.header.index("SCoTS")] for row in whole.rows if row[:2] == [dataset, "1000"]]
    assert block.header == ["dataset", "steps", "SCoTS"]
    assert block.rows == [[dataset, "1000", cell]]
    assert str(cell).startswith("98.0 [")


def shown_at(table: str, dataset: str) -> dict[str, dict[str, str]]:
    """Step limit -> column -> cell of a dataset, with nothing but published numbers."""
    block = comparison_table(TABLES[table], [])
    lines = [dict(zip(block.header, map(str, line), strict=True)) for line in block.rows if line[0] == dataset]
    return {line["steps"]: line for line in lines}


@pytest.mark.parametrize(
    ("dataset", "planners", "composed"),
    [
        ("pointmaze-giant-stitch-v0", "2000", "1000"),
        ("antmaze-large-explore-v0", "2000", "1000"),
        ("antmaze-giant-stitch-v0", "2000", "2000"),
        ("antmaze-medium-stitch-v0", "1000", "1000"),
    ],
)
def test_published_numbers_stand_at_the_limit_that_they_were_made_with(dataset: str, planners: str, composed: str):
    """Those of agents and of GSC and CD once stood beside episodes of twice their length."""
    lines = shown_at("planning", dataset)
    expected = {"HIQL": "1000", "QRL": "1000", "GSC": composed, "CD": composed, "HD": planners, "SCoTS": planners}
    for column, limit in expected.items():
        assert {steps for steps, line in lines.items() if line[column]} == {limit}, column
    assert set(shown_at("gcrl", dataset)) == {"1000"}
    if "stitch" in dataset:
        assert {steps for steps, line in shown_at("replanning", dataset).items() if line["CD"]} == {composed}
