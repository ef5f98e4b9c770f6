"""Recipes become configs, and what they cannot become is said."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scots.agents import AGENTS
from scots.augmenters import AUGMENTERS
from scots.core.errors import BadInput
from scots.datasets import toy
from scots.datasets.specs import SPECS, spec_of
from scots.evaluation.control import PlanFollowing
from scots.experiments.recipe import SEARCH, Recipe
from scots.experiments.tables import TABLES
from scots.planners import PLANNERS
from scots.planners.search import SearchConfig

SPEC = spec_of(toy.make(episodes=2))
POINT, ANT = (SPECS[f"{body}maze-giant-stitch-v0"] for body in ("point", "ant"))
SCOTS = Recipe("scots", "hd", "gciql")


def test_an_override_reaches_its_part_and_no_other():
    plain = SCOTS.resolve(SPEC, "smoke")
    overrides = {
        "augmenter": ("stitching.novelty_weight", 4.0),
        "data": ("keep_recorded", True),
        "planner": ("high.depth", 2),
        "agent": ("discount", 0.5),
        "following": ("lookahead", 3),
        "search": ("candidates", 5),
    }
    for part, (path, value) in overrides.items():
        changed = SCOTS.replace_at(f"{part}.{path}", value).resolve(SPEC, "smoke")
        assert changed == replace(plain, **{part: getattr(plain, part).replace_at(path, value)})
        assert changed != plain
    assert SCOTS.overrides == {}


def test_an_agent_without_a_planner_has_settings_to_act_alone():
    for planner, alone in ((None, True), ("hd", False)):
        agent = Recipe(None, planner, "crl").resolve(POINT, "laptop").agent
        assert agent == AGENTS["crl"].configure(POINT, "laptop", alone=alone)
    assert agent.discount == 0.95


def test_recorded_episodes_beside_the_augmented_ones_are_a_setting():
    recipe = Recipe("synther", None, "hiql")
    assert not recipe.resolve(POINT, "laptop").data.keep_recorded
    both = recipe.replace_at("data.keep_recorded", True)
    assert both.resolve(POINT, "laptop").data.keep_recorded
    assert both.normalized(POINT, "laptop") == both != recipe
    assert recipe.replace_at("data.keep_recorded", False).normalized(POINT, "laptop") == recipe
    with pytest.raises(BadInput, match=r"'data.keep_recorded' has no effect without an augmenter"):
        Recipe(None, None, "hiql", {"data.keep_recorded": True})


def test_recipes_survive_json():
    recipe = SCOTS.replace_at("augmenter.stitching.novelty_weight", 4.0).replace_at("agent.hidden", [8, 8])
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert again.resolve(SPEC, "smoke").agent.hidden == (8, 8)


def test_parts_that_a_recipe_has_not_are_none():
    settings = Recipe(None, None, "crl").resolve(SPEC, "smoke")
    assert (settings.augmenter, settings.planner, settings.following, settings.search) == (None, None, None, None)
    assert settings.agent == AGENTS["crl"].configure(SPEC, "smoke")
    assert SCOTS.replace_at("augmenter", None) == Recipe(None, "hd", "gciql")


def test_a_planner_of_augmented_data_plans_as_far_as_its_trajectories():
    """The table's waypoints where trajectories are long enough, those for recorded episodes where they are not."""
    assert SCOTS.resolve(POINT, "paper").planner.waypoints == 41
    assert Recipe(None).resolve(POINT, "paper").planner.waypoints == 5
    assert SCOTS.replace_at("augmenter.stitching.stitches", 30).resolve(POINT, "paper").planner.waypoints == 5


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_one_plan_is_followed_unless_a_search_is_asked_for(profile: str):
    for recipe in (SCOTS, Recipe(None)):
        assert recipe.resolve(SPEC, profile).search == SearchConfig()


@pytest.mark.parametrize("dataset", list(TABLES["planning"].published))
def test_headline_columns_differ_in_their_data_alone(dataset: str):
    """The same training, network, levels, controller, search: only the length of plans follows from the data."""
    recorded, stitched = (
        TABLES["planning"].recipe(column, dataset, "laptop").resolve(SPECS[dataset], "laptop")
        for column in ("HD", "SCoTS")
    )
    assert recorded.augmenter is None
    assert stitched.augmenter is not None
    for part in ("agent", "following", "search"):
        assert getattr(recorded, part) == getattr(stitched, part)
    assert set(stitched.planner.changes_from(recorded.planner)) == {"waypoints", "high_every"}
    assert list(recorded.planner.levels()) == list(stitched.planner.levels()) == ["high", "middle", "low"]


@pytest.mark.parametrize("field", ["augmenter", "planner", "agent"])
def test_every_method_that_is_registered_can_be_named(field: str):
    known = {"augmenter": AUGMENTERS, "planner": PLANNERS, "agent": AGENTS}[field]
    for name in known:
        acts = field == "planner" and PLANNERS[name].plans_actions
        named = SCOTS.replace_all({field: name, **({"agent": None} if acts else {})})
        assert getattr(named, field) == name
    with pytest.raises(BadInput, match=f"{field} 'magic' is not one of .*{', '.join(known)}"):
        SCOTS.replace_at(field, "magic")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("augmenter.beta", 3, "ScotsConfig has no field 'beta'"),
        ("augmenter.stitching.speed", 3, "StitchingConfig has no field 'speed'"),
        ("augmenter.refine.more", 1, "ScotsConfig.refine has no fields, so 'more'"),
        ("augmenter.stitching.novelty_weight", "much", "StitchingConfig.novelty_weight: expected float, got 'much'"),
        ("planner.waypoints", 4.5, "HierarchicalDiffuserConfig.waypoints: expected int, got 4.5"),
        ("planner.waypoints", 2, "2 waypoints leave nothing to plan"),
        ("agent.training.steps", True, "TrainingConfig.steps: expected int, got True"),
        ("agent.training.schedule", "steep", "TrainingConfig.schedule: 'steep' is not one of 'constant', 'cosine'"),
        ("following.speed", 3, "PlanFollowing has no field 'speed'"),
        ("following.replan_every", "never", "PlanFollowing.replan_every: expected int, got 'never'"),
        ("search.bisect", 1, "SearchConfig.bisect: expected bool, got 1"),
        ("search.candidates", 0, "candidates 0: at least one plan"),
    ],
)
def test_overrides_are_checked_when_they_are_resolved(path: str, value: Any, message: str):
    recipe = SCOTS.replace_at(path, value)
    for use in (recipe.resolve, recipe.normalized):
        with pytest.raises(BadInput, match=message):
            use(SPEC, "smoke")


@pytest.mark.parametrize(
    ("recipe", "path", "message"),
    [
        (
            SCOTS,
            "learner.depth",
            "'learner.depth' is not a setting of augmenter, data, planner, agent, following, search",
        ),
        (SCOTS, "beta", "no field 'beta'"),
        (Recipe("scots", None, "crl"), "following.lookahead", "'following.lookahead' has no effect without a planner"),
        (Recipe("scots", None, "crl"), "search.candidates", "'search.candidates' has no effect without a planner"),
        (Recipe("scots", None, "crl"), "planner.waypoints", "'planner.waypoints' has no effect without a planner"),
        (Recipe(None), "augmenter.refine", "'augmenter.refine' has no effect without an augmenter"),
    ],
)
def test_overrides_of_parts_that_are_not_there_are_named(recipe: Recipe, path: str, message: str):
    with pytest.raises(BadInput, match=message):
        recipe.replace_at(path, 3)


def test_overrides_that_change_nothing_vanish():
    as_it_is = SCOTS.replace_at("following.lookahead", 10).replace_at("search.candidates", 1)
    assert as_it_is.normalized(POINT, "laptop") == SCOTS
    assert as_it_is.normalized(ANT, "laptop") == SCOTS.replace_at("following.lookahead", 10)  # an ant's is 5
    assert as_it_is.normalized(POINT, "paper") == SCOTS
    by_clock = SCOTS.replace_at("following.replan_every", 50)
    assert by_clock.normalized(POINT, "paper") == SCOTS
    assert by_clock.normalized(POINT, "laptop") == by_clock
    changed = SCOTS.replace_at("planner.training.steps", 10)
    assert changed.normalized(POINT, "paper") == changed


def test_the_later_of_two_overrides_counts_and_the_other_vanishes():
    stitching = SCOTS.resolve(SPEC, "smoke").augmenter.stitching.to_dict()
    recipe = SCOTS.replace_at("augmenter.stitching.candidates", 3).replace_at("augmenter.stitching", stitching)
    assert recipe.resolve(SPEC, "smoke") == SCOTS.resolve(SPEC, "smoke")
    assert recipe.normalized(SPEC, "smoke") == SCOTS


def test_one_run_for_each_evaluation_seed_of_the_same_training():
    runs = TABLES["planning"].runs([POINT.id], seeds=(0, 5), training_seed=3)
    assert {(run.training_seed, run.seed) for run in runs} == {(3, 0), (3, 5)}
    assert len(runs) == 2 * len(TABLES["planning"].recipes)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_every_column_of_every_table_becomes_configs(name: str, profile: str):
    for run in TABLES[name].runs(profile=profile):
        recipe, spec = run.recipe, SPECS[run.dataset]
        settings = recipe.resolve(spec, profile)
        assert recipe.normalized(spec, profile) == recipe
        if recipe.planner is None:
            assert settings.following is None
            continue
        assert recipe.agent == (None if PLANNERS[recipe.planner].plans_actions else spec.at(profile).controller)
        changes = {path.partition(".")[2]: v for path, v in recipe.overrides.items() if path.startswith("following.")}
        assert settings.following == PlanFollowing.configure(spec, profile).replace_all(changes)
        assert settings.search.candidates == recipe.overrides.get("search.candidates", 1)


def test_columns_differ_by_what_their_names_say():
    def settings(table: str, column: str, profile: str = "laptop"):
        return TABLES[table].recipe(column, POINT.id, profile).resolve(POINT, profile)

    assert settings("search", "one plan").search == SearchConfig()
    assert settings("search", "ranking").search == SearchConfig(SEARCH.candidates)
    assert settings("search", "ranking, mending").search == SearchConfig(SEARCH.candidates, mend=True)
    assert settings("planning", "HD + search").search == settings("planning", "SCoTS + search").search == SEARCH
    for column, planner in (("CD + search", "cd"), ("GSC + search", "gsc")):  # plans without parts are only ranked
        assert settings("planning", column).search == SearchConfig(SEARCH.candidates)
        assert TABLES["planning"].recipe(column, POINT.id, "laptop").planner == planner
    assert settings("replanning", "CD, when late").following == settings("replanning", "SCoTS, when late").following
    assert settings("controller_horizon", "CD, 20").following == settings("controller_horizon", "SCoTS, 20").following
    once, clock, late = (
        settings("replanning", column).following for column in ("SCoTS-once", "SCoTS", "SCoTS, when late")
    )
    assert (once.replan_every, once.replan_late) == (0, False)
    assert (clock.replan_every, clock.replan_late) == (50, False)
    assert (late.replan_every, late.replan_late) == (0, True)
    columns = ("GSC, SCoTS data", "CD", "CD, long chunks of SCoTS data")
    gsc, cd, long = (run.recipe for run in TABLES["composition"].runs([POINT.id], columns))
    assert (gsc, cd) == (Recipe("scots", "gsc", "gciql"), Recipe(None, "cd", "gciql"))
    assert long.resolve(POINT, "laptop").planner.span == 497
    for size, horizon in (("medium", 501), ("large", 501), ("giant", 1001)):
        recipe = TABLES["composition"].recipe("SCoTS", dataset := f"antmaze-{size}-stitch-v0", "laptop")
        assert recipe.resolve(SPECS[dataset], "laptop").planner.horizon == horizon  # as the note of the table says


def test_the_table_of_agents_has_each_on_recorded_generated_and_stitched_data():
    found = {
        column: TABLES["gcrl"].recipe(column, "antmaze-large-explore-v0", "laptop") for column in TABLES["gcrl"].columns
    }
    assert {column: (recipe.augmenter, recipe.planner, recipe.agent) for column, recipe in found.items()} == {
        f"{agent}{suffix}": (augmenter, None, agent.lower())
        for agent in ("GCIQL", "CRL", "HIQL")
        for suffix, augmenter in (("", None), ("+SynthER", "synther"), ("+SCoTS", "scots"))
    } | {"QRL": (None, None, "qrl")}
    averages = {
        column: np.mean([int(row[column].partition("±")[0]) for row in TABLES["gcrl"].published.values()])
        for column in ("GCIQL+SynthER", "CRL+SCoTS", "HIQL", "HIQL+SCoTS")
    }
    assert averages == pytest.approx(  # as the paper prints them
        {"GCIQL+SynthER": 13.9, "CRL+SCoTS": 27.9, "HIQL": 36.4, "HIQL+SCoTS": 73.4}, abs=0.051
    )


def test_published_numbers_are_those_of_columns():
    for table in TABLES.values():
        for published in table.published.values():
            assert set(published) <= set(table.columns)
    planning = TABLES["planning"].published
    assert len(planning) == 8
    means = [sum(int(row[method].split("±")[0]) for row in planning.values()) / 8 for method in ("CD", "HD", "SCoTS")]
    assert means == pytest.approx([77.9, 25.4, 96.8], abs=0.05)  # the averages that the paper prints


def test_what_acts_has_a_name():
    assert (SCOTS.actor, Recipe(None, None, "crl").actor) == ("hd + gciql", "crl")


def test_overrides_that_are_possible_only_together_are_kept_together():
    together = {"augmenter.refine": False, "augmenter.stitching.segment": 2}
    recipe = SCOTS.replace_all(together | {"augmenter.encoder": "temporal", "agent": "crl"})
    assert recipe.normalized(SPEC, "smoke") == Recipe("scots", "hd", "crl", together)


def test_the_same_settings_have_one_identity_however_they_are_given():
    """A whole number for a float, a part of a config or all of it."""
    whole = SCOTS.resolve(SPEC, "smoke").planner.training.replace_at("steps", 5).to_dict()
    ways = [
        {"planner.training.steps": 5, "augmenter.stitching.novelty_weight": 4},
        {"augmenter.stitching.novelty_weight": 4.0, "planner.training": whole},
    ]
    first, second = (replace(SCOTS, overrides=overrides).normalized(SPEC, "smoke") for overrides in ways)
    assert first.to_json() == second.to_json()
    assert first.overrides == {"augmenter.stitching.novelty_weight": 4.0, "planner.training.steps": 5}


def test_plans_fit_what_an_overridden_augmenter_makes():
    """Shorter trajectories have shorter plans, which is no change of the planner's settings."""
    recipe = SCOTS.replace_at("augmenter.stitching.stitches", 10)
    short, long = (one.resolve(POINT, "paper").planner.waypoints for one in (recipe, SCOTS))
    assert short < long
    assert recipe.normalized(POINT, "paper") == recipe


def test_only_planners_with_bridges_are_searched_by_default(monkeypatch: pytest.MonkeyPatch):
    class Whole(PLANNERS["hd"]):
        name, has_bridges = "whole", False

    monkeypatch.setitem(PLANNERS, "whole", Whole)
    recipe = Recipe("scots", "whole", "gciql")
    assert recipe.resolve(SPEC, "laptop").search == SearchConfig()
    assert recipe.replace_at("search.candidates", 4).resolve(SPEC, "laptop").search == SearchConfig(4)
    with pytest.raises(BadInput, match="whole draws plans as a whole"):
        recipe.replace_at("search.bisect", True).resolve(SPEC, "laptop")


def test_a_planner_of_actions_has_no_agent_and_every_other_recipe_has_one():
    spec = SPECS["hopper-medium-v2"]
    recipe = Recipe(None, "diffuser", None)
    assert recipe.actor == "diffuser"
    assert recipe.resolve(spec, "smoke").agent is None
    assert Recipe.from_json(recipe.to_json()) == recipe
    with pytest.raises(BadInput, match="diffuser plans actions and takes none"):
        Recipe(None, "diffuser", "gciql")
    for planner in (None, "hd"):
        with pytest.raises(BadInput, match="none is named"):
            Recipe(None, planner, None)
    with pytest.raises(BadInput, match=r"'agent\.alpha' has no effect without an agent"):
        Recipe(None, "diffuser", None, {"agent.alpha": 1.0})
    with pytest.raises(BadInput, match="diffuser chooses among its own plans"):
        Recipe("scots", "diffuser", None, {"search.candidates": 4}).resolve(spec, "smoke")
