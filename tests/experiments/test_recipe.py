"""Recipes become configs, and what they cannot become is said."""

import pytest

from scots.core.errors import BadInput
from scots.datasets import toy
from scots.evaluation.control import PlanFollowing
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES
from scots.planners import PLANNERS

DATA = toy.make(episodes=20)


def test_a_setting_reaches_its_part_and_no_other():
    plain = Recipe("official", "hd", "gciql")
    recipe = (
        plain.replace_at("augment.stitching.novelty_weight", 4.0)
        .replace_at("execution.lookahead", 3)
        .replace_at("learner.waypoints", 4)
    )
    assert recipe.augmentation_for(DATA, "smoke") == plain.augmentation_for(DATA, "smoke").replace_at(
        "stitching.novelty_weight", 4.0
    )
    assert recipe.execution_for("pointmaze-giant-stitch-v0", "paper") == PlanFollowing(lookahead=3)
    assert recipe.learner_for(DATA, "smoke").waypoints == 4
    assert recipe.controller_for(DATA, "smoke") == plain.controller_for(DATA, "smoke")
    assert plain.settings == {}
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_the_data_as_it_is():
    assert Recipe(None, "gciql").augmentation_for(DATA, "smoke") is None
    assert Recipe("official", "hd", "crl").replace_at("augment", None) == Recipe(None, "hd", "crl")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe("magic", "hd", "gciql"), "augment 'magic' is not one of None, paper, official, custom"),
        (lambda: Recipe("official", "dreamer"), "learner 'dreamer'"),
        (lambda: Recipe("official", "hd"), "a planner needs a controller"),
        (lambda: Recipe("official", "crl", "gciql"), "an agent is its own"),
        (
            lambda: Recipe("official", "hd", "gciql").replace_at("planner.depth", 3),
            "'planner.depth' is not a setting of",
        ),
        (lambda: Recipe("official", "hd", "gciql").replace_at("beta", 3), "no field 'beta'"),
        (
            lambda: Recipe("official", "hd", "gciql").replace_at("execution.speed", 3).execution_for("x", "smoke"),
            "PlanFollowing has no field 'speed'",
        ),
        (
            lambda: Recipe("official", "hd", "gciql").replace_at("augment.beta", 3).augmentation_for(DATA, "smoke"),
            "ScotsConfig has no field 'beta'",
        ),
    ],
)
def test_what_cannot_be_is_named(make, message: str):
    with pytest.raises(BadInput, match=message):
        make()


def test_settings_that_change_nothing_are_not_part_of_a_run():
    giant, ant = "pointmaze-giant-stitch-v0", "antmaze-giant-stitch-v0"
    recipe = Recipe("official", "hd", "gciql")
    assert recipe.replace_at("execution.lookahead", 10).plain(giant, "laptop") == recipe
    assert recipe.replace_at("execution.lookahead", 10).plain(ant, "laptop") != recipe
    assert recipe.replace_at("execution.candidates", 8).plain(giant, "laptop") == recipe
    for changed in (recipe.replace_at("execution.candidates", 8), recipe.replace_at("learner.training.steps", 10)):
        assert changed.plain(giant, "paper") == changed
    (run,) = TABLES["candidates"].runs([giant], ["SCoTS, 8"], profile="paper")
    assert run.recipe.execution_for(giant, "paper").candidates == 8


def test_one_run_for_each_evaluation_seed_of_the_same_training():
    runs = TABLES["planning"].runs(["pointmaze-giant-stitch-v0"], seeds=(0, 5), training_seed=3)
    assert {(run.training_seed, run.seed) for run in runs} == {(3, 0), (3, 5)}
    assert len(runs) == 2 * len(TABLES["planning"].recipes)


@pytest.mark.parametrize("name", TABLES)
def test_every_column_of_every_table_becomes_configs(name: str):
    for run in TABLES[name].runs():
        recipe = run.recipe
        usual = 2 if recipe.augment else 1
        assert recipe.execution_for(run.dataset, "smoke").candidates == recipe.settings.get(
            "execution.candidates", usual
        )
        assert recipe.controller_for(DATA, "smoke").profile == "smoke"
        assert recipe.learner_for(DATA, "smoke").profile == "smoke"
        assert (recipe.augmentation_for(DATA, "smoke") is None) == (recipe.augment is None)


def test_published_numbers_are_those_of_columns():
    for table in TABLES.values():
        for published in table.published.values():
            assert set(published) <= set(table.columns)
    planning = TABLES["planning"].published
    assert len(planning) == 8
    means = [sum(int(row[method].split("±")[0]) for row in planning.values()) / 8 for method in ("CD", "HD", "SCoTS")]
    assert means == pytest.approx([77.9, 25.4, 96.8], abs=0.05)  # the averages that the paper prints


def test_planners_are_those_that_plan():
    assert all(Recipe(None, name, "gciql").plans for name in PLANNERS)
    assert not Recipe(None, "crl").plans
