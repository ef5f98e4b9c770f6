"""The results page is what the rows say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from result_rows import a_row_of

from scots.augmenters import AUGMENTERS
from scots.core.errors import BadInput
from scots.core.files import append_rows
from scots.datasets import toy
from scots.datasets.specs import SPECS, spec_of
from scots.evaluation.results import EvalResult
from scots.experiments.recipe import Recipe
from scots.experiments.tables import TABLES
from scots.reporting.augmentation import AugmentationSettings
from scots.reporting.cells import rows_of
from scots.reporting.results_page import results_document, times_table, updated_readme
from scots.reporting.rows import EVALUATION_KEY, QUALITY_KEY, append_new_rows, newest, read_rows

ROOT = Path(__file__).parents[2]


def page(folder: Path) -> str:
    return results_document(folder).markdown()


def an_evaluation() -> dict[str, Any]:
    """A row that the page shows."""
    return a_row_of("planning", "SCoTS")


def test_the_page_is_not_stale():
    assert (ROOT / "docs" / "results.md").read_text() == page(ROOT / "results"), "run `make results`"


def test_the_table_of_the_readme_is_not_stale():
    readme = (ROOT / "README.md").read_text()
    assert readme == updated_readme(readme, ROOT / "results"), "run `make results`"


def tables_of(markdown: str) -> list[list[dict[str, str]]]:
    """Every table, line by line."""
    tables = []
    for block in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        header, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines())
        tables.append([dict(zip(header, line, strict=True)) for line in lines])
    return tables


def test_the_figures_of_the_chosen_refinement_are_those_of_the_rows():
    chosen, every = (
        next(table for table in tables_of(text) if {"variant", "calls"} <= table[0].keys())
        for text in ((ROOT / "docs" / "method.md").read_text(), page(ROOT / "results"))
    )
    measured = [{title: line[title] for title in chosen[0]} for line in every]
    assert [line for line in chosen if line not in measured] == []


def test_the_pages_show_one_profile_and_whole_tasks(tmp_path: Path):
    row = an_evaluation()
    lines = [json.dumps(row)]
    (tmp_path / "evaluations.jsonl").write_text("\n".join(lines))
    before = page(tmp_path)
    others = [{**row, "profile": "smoke", "successes": 0}, {**row, "seed": 7, "episodes": 2, "successes": 0}]
    (tmp_path / "evaluations.jsonl").write_text("\n".join([*lines, *map(json.dumps, others)]))
    assert page(tmp_path) == before
    changed = json.dumps({**row, "successes": 0})
    (tmp_path / "evaluations.jsonl").write_text("\n".join([*lines, changed]))
    assert page(tmp_path) != before


@pytest.mark.parametrize("other", [{"episodes": 2}, {"origin": "downloaded"}])
def test_a_later_row_of_another_experiment_replaces_none(other: dict[str, Any]):
    row = an_evaluation()
    later = row | {"successes": 0, "date": "2999-01-01T00:00:00+00:00"} | other
    assert newest([row, later], EVALUATION_KEY) == [row, later]


def test_a_later_row_of_few_episodes_leaves_the_page_as_it_is(tmp_path: Path):
    """The cell once vanished."""
    append_rows(tmp_path / "evaluations.jsonl", [an_evaluation()])
    before = page(tmp_path)
    append_rows(tmp_path / "evaluations.jsonl", [an_evaluation() | {"episodes": 2, "successes": 0}])
    assert page(tmp_path) == before


def test_rows_that_were_kept_before_are_not_added_again(tmp_path: Path):
    """An older row once came back after a newer one of the same result."""
    path = tmp_path / "evaluations.jsonl"
    older = an_evaluation() | {"date": "2026-01-01T00:00:00+00:00", "successes": 1}
    newer = older | {"date": "2026-01-02T00:00:00+00:00", "successes": 2}
    for rows in ([older], [newer], [older], [older, newer]):
        append_new_rows(path, rows)
    assert read_rows(path, EVALUATION_KEY) == [older, newer]


def test_a_kept_row_that_lacks_fields_of_today_is_not_added_again(tmp_path: Path):
    """Evaluations that are cached read as rows of today, with the new fields at their defaults."""
    path, cached = tmp_path / "evaluations.jsonl", EvalResult.from_dict(an_evaluation()).to_dict()
    kept = {
        name: value for name, value in cached.items() if name not in ("peak_memory", "speed", "failures", "returns")
    }
    append_rows(path, [kept])
    append_new_rows(path, [cached])
    assert read_rows(path, EVALUATION_KEY) == [kept]
    append_new_rows(path, [cached | {"seed": 9}])
    assert len(read_rows(path, EVALUATION_KEY)) == 2


def test_the_newest_row_is_that_of_the_latest_date_wherever_it_stands():
    first = an_evaluation() | {"date": None, "successes": 1}
    undated = {name: value for name, value in first.items() if name != "date"} | {"successes": 2}
    older, newer = ({**first, "date": f"2026-01-0{day}T00:00:00+00:00", "successes": 2 + day} for day in (1, 2))
    assert newest([newer, older, undated, first], EVALUATION_KEY) == [newer]
    assert newest([older, first], EVALUATION_KEY) == [older]
    assert newest([first, undated], EVALUATION_KEY) == [undated]  # of equal ones the last


def test_times_stand_in_the_order_of_the_datasets():
    rows = [
        a_row_of("planning", column, dataset)
        for dataset in ("antmaze-medium-stitch-v0", "pointmaze-medium-stitch-v0")
        for column in ("SCoTS", "HD")
    ]
    lines = [line[:2] for line in times_table(rows).rows]
    names = [["pointmaze-medium-stitch-v0", name] for name in ("recorded", "scots")]
    assert lines == [*names, *(["antmaze-medium-stitch-v0", name] for _, name in names)]


def test_every_training_has_its_own_times():
    """Tasks of both step limits are one evaluation; other evaluation seeds and changed recipes are left out."""
    recipe = Recipe("scots", "hd", "gciql")
    row = {"dataset": "maze", "recipe": recipe.to_dict(), "training_seed": 0, "seed": 0, "task": 1, "seconds": 30.0}
    row["stages"] = {"augment": 60.0, "planner": 120.0, "search": 12.0}
    rows = [
        row,
        row | {"max_steps": 2000},
        row | {"task": 2, "peak_memory": 2_340_000_000},
        row | {"seed": 1, "seconds": 999.0},
        row | {"recipe": recipe.replace_at("following.lookahead", 5).to_dict(), "seconds": 999.0},
        row | {"training_seed": 1, "stages": {"collect": 6.0, **row["stages"]}},
    ]
    first, second = times_table(rows).rows
    assert first == ["maze", "scots", "hd + gciql", "0", "-", "1.0", "0.2", "2.0", "-", "1.0", "4.2", "2.3"]
    assert second == ["maze", "scots", "hd + gciql", "1", "0.1", "1.0", "0.2", "2.0", "-", "0.5", "3.8", "-"]


def test_the_newest_row_of_a_result_counts(tmp_path: Path):
    path = tmp_path / "quality.jsonl"
    line = '{{"dataset": "a", "augmenter": "b", "config_fingerprint": "f", "profile": "p", "seed": {seed}, "x": {x}}}\n'
    path.write_text(line.format(seed=0, x=1) + line.format(seed=1, x=2) + line.format(seed=0, x=3))
    rows = newest(read_rows(path, QUALITY_KEY), QUALITY_KEY)
    assert [(row["seed"], row["x"]) for row in rows] == [(0, 3), (1, 2)]
    path.write_text(line.format(seed=0, x=1) + "garbage\n")
    with pytest.raises(BadInput, match="line 2"):
        read_rows(path, QUALITY_KEY)
    assert read_rows(tmp_path / "absent.jsonl", QUALITY_KEY) == []


def test_rows_of_other_settings_are_shown_beside_each_other_with_the_commands_that_make_them(tmp_path: Path):
    """Each was once shown under one name, and the last of them alone."""
    data, scots = toy.make(episodes=4), AUGMENTERS["scots"]
    row = json.loads((ROOT / "results" / "quality.jsonl").read_text().splitlines()[0])
    usual = scots.configure(spec_of(data), "laptop")
    configs = [
        usual.replace_all(changes)
        for changes in ({}, {"trajectories": 400}, {"stitching.novelty_weight": 9.0}, {"stitcher.depth": 9})
    ]
    steps = [scots.job(data, config, 0, "laptop").meta.augmentation for config in configs]
    steps.append(steps[0] | {"augmenter": "mixup"})  # another that happens to have the same settings
    made = [AugmentationSettings.of(data.with_meta(provenance=(step,))).to_dict() for step in steps]
    rows = [row | {"dataset": toy.ID} | settings for settings in made]
    append_rows(tmp_path / "quality.jsonl", [*rows, rows[0]])  # the first was measured again
    section = page(tmp_path).split("## Quality of augmented data")[1]
    shown = [line.split(" | ")[1] for line in section.splitlines() if line.startswith(f"| {toy.ID}")]
    changed = ("trajectories=400", "stitching.novelty_weight=9", "stitcher.depth=9")
    assert shown == ["scots", *(f"scots, {change}" for change in changed), "mixup"]
    commands = [line for line in section.splitlines() if line.startswith("scots augment")]
    start = f"scots augment {toy.ID} --out {toy.ID}-augmented.npz"
    assert commands == [start, f"{start} --trajectories 400", f"{start} --beta 9", f"{start} --set stitcher.depth=9"]


def test_new_measures_stand_beside_rows_that_lack_them(tmp_path: Path):
    measures = (
        "augmented_fine_cells_equal",
        "augmented_return",
        "augmented_sampled_states",
        "beyond_best_return",
        "compared_states",
        "dynamic_mse_generated",
        "dynamic_mse_generated_p90",
        "dynamic_mse_groups",
        "dynamic_mse_kept",
        "dynamic_mse_kept_p90",
        "dynamic_mse_mean",
        "dynamic_mse_per_step",
        "dynamic_mse_places",
        "dynamic_mse_relabelled",
        "dynamic_mse_relabelled_p90",
        "equal_states",
        "join_gap",
        "join_gap_refined",
        "nearer_to_walls_than_recorded",
        "off_data",
        "off_data_positions",
        "off_data_positions_recorded",
        "off_data_recorded",
        "one_step_square",
        "original_fine_cells_equal",
        "original_return",
        "original_sampled_states",
        "own_continuation",
        "reasons",
        "recall",
        "recorded_states",
        "recorded_transitions",
        "reward_error",
        "step_length_ks",
        "verdict",
    )
    kept = json.loads((ROOT / "results" / "quality.jsonl").read_text().splitlines()[0])
    old = {name: value for name, value in kept.items() if name not in measures}
    append_rows(tmp_path / "quality.jsonl", [old])
    assert "verdict" not in page(tmp_path)
    measured = {"verdict": "do not use", "off_data": 0.23, "recorded_states": 0.75, "dynamic_mse_per_step": 0.31}
    append_rows(tmp_path / "quality.jsonl", [old | measured | {"seed": 1}])
    lines = [line for line in page(tmp_path).splitlines() if line.startswith(("| dataset | augmentation", "| antmaze"))]
    header, first, second = (dict(enumerate(line.strip("| ").split(" | "))) for line in lines[-3:])
    names = [number for number, name in header.items() if name in ("verdict", "off the data", "recorded states")]
    assert [first[number] for number in names] == ["-", "-", "-"]
    assert [second[number] for number in names] == ["do not use", "23.0%", "75%"]
    assert "nearer to walls" not in header.values()  # no row has it


def test_commands_name_the_datasets_columns_and_seeds_that_were_run(tmp_path: Path):
    """Rows of other seeds have another command: none claims more than what was run."""
    table, dataset = TABLES["search"], "pointmaze-medium-stitch-v0"
    rows = [
        a_row_of("search", column, dataset) | {"seed": seed, "training_seed": training_seed}
        for column, seed, training_seed in (
            ("one plan", 0, 0),
            ("ranking", 0, 0),
            ("ranking, mending", 0, 0),
            ("ranking, mending", 3, 0),
            ("one plan", 0, 7),
        )
    ]
    append_rows(tmp_path / "evaluations.jsonl", rows)
    section = page(tmp_path).split(f"## {table.title}")[1].split("```")[1]
    start = f"scots table search --datasets {dataset} --columns"
    end = "--keep results/evaluations.jsonl"
    assert section.strip().splitlines() == [
        f"{start} 'one plan' ranking --seeds 0 {end}",
        f"{start} 'one plan' --seeds 0 --training-seed 7 {end}",
        f"{start} 'ranking, mending' --seeds 0 3 {end}",
    ]


@pytest.mark.parametrize("change", [("search", "candidates", 3), ("following", "lookahead", 7)])
def test_a_cell_shows_only_rows_of_the_settings_that_its_recipe_has_today(change: tuple[str, str, Any]):
    """Rows of former settings under the same recipe were once averaged with those of today."""
    table, dataset = TABLES["planning"], "pointmaze-medium-stitch-v0"
    row = a_row_of("planning", "SCoTS", dataset)
    part, name, value = change
    former = row | {part: row[part] | {name: value}, "seed": 1}
    assert rows_of(table, "SCoTS", dataset, [row, former]) == [row]
    assert rows_of(table, "CD", dataset, [row, former]) == []


def test_the_page_says_which_commits_made_rows_and_which_only_stored_them(tmp_path: Path):
    path = tmp_path / "evaluations.jsonl"
    append_rows(path, [an_evaluation() | {"commit": "0123456789ab"}])
    assert "Commits that made the rows: `0123456789ab`." in page(tmp_path)
    assert "stored" not in page(tmp_path)
    append_rows(path, [an_evaluation() | {"commit": "stored in ba9876543210", "seed": 9}])
    assert "`0123456789ab`. Commits that stored rows" in page(tmp_path)
    assert '"stored in": `ba9876543210`.' in " ".join(page(tmp_path).split())


def test_the_page_says_in_what_planners_differ_by_their_settings(tmp_path: Path):
    """It once said that all columns have one network, training and number of plans."""
    append_rows(tmp_path / "evaluations.jsonl", [an_evaluation()])
    words, dataset = " ".join(page(tmp_path).split()), "antmaze-large-explore-v0"
    for column in ("HD", "SCoTS", "CD", "GSC"):
        config = TABLES["planning"].recipe(column, dataset, "laptop").resolve(SPECS[dataset], "laptop").planner
        assert f"({config.training.steps:,} steps of {config.training.batch_size} windows)" in words
    assert f"draw {config.candidates} candidates for each plan" in words


def test_a_folder_without_rows_has_a_page_too(tmp_path: Path):
    text = page(tmp_path)
    assert re.findall("^## (.*)$", text, re.MULTILINE) == ["Not measured yet"]
    assert all(f"`scots table {name}`" in text for name in TABLES)


def test_a_table_is_shown_where_it_has_a_row_that_none_before_it_has(tmp_path: Path):
    """Tables of one measured setting, that of `planning`, once stood there as if something had been compared."""
    append_rows(tmp_path / "evaluations.jsonl", [an_evaluation()])
    shown, left = page(tmp_path).split("## Not measured yet")
    assert "## Planning" in shown
    assert "## The horizon" not in shown
    assert "`scots table controller_horizon`" in left
    assert "`scots table planning`" not in left
    append_rows(tmp_path / "evaluations.jsonl", [a_row_of("controller_horizon", "SCoTS, 25")])
    assert "## The horizon" in page(tmp_path)


def test_columns_without_a_number_are_named_and_not_shown(tmp_path: Path):
    append_rows(tmp_path / "evaluations.jsonl", [an_evaluation()])
    section = page(tmp_path).split("## Planning")[1].split("\n## ")[0]
    [header] = [line for line in section.splitlines() if line.startswith("| dataset | steps |")]
    assert "search" not in header
    assert "| CD |" in header  # published
    missing = "Not measured here: GSC, CD, HD, GSC + search, CD + search, HD + search, SCoTS + search."
    assert missing in " ".join(section.split())


def test_the_page_says_of_how_many_trainings_its_numbers_are(tmp_path: Path):
    path, row = tmp_path / "evaluations.jsonl", an_evaluation()
    append_rows(path, [row, row | {"seed": 1}])
    assert "Each number is of one training" in page(tmp_path)
    append_rows(path, [row | {"training_seed": seed} for seed in (1, 2)])
    assert "Numbers are of one to 3 trainings" in page(tmp_path)


def test_of_the_same_augmentation_the_newest_row_is_shown(tmp_path: Path):
    """A row of former settings once stood under the same name, above the same command."""
    row = json.loads((ROOT / "results" / "quality.jsonl").read_text().splitlines()[0])
    former = row | {"config_fingerprint": "0" * 12, "date": "2020-01-01", "verdict": "do not use"}
    append_rows(tmp_path / "quality.jsonl", [row, former])
    assert "do not use" not in page(tmp_path)


def test_learning_curves_name_their_trainings_and_the_commands_that_made_them(tmp_path: Path):
    row = {"agent": "hiql", "dataset": "maze", "augmenter": "scots", "profile": "laptop", "seed": 1, "separate": False}
    row |= {"changes": {"target_decay": 0.95}, "all_steps": [5000, 20000], "steps": 5000, "minutes": 2.04, "cores": 2}
    row |= {"success": 0.275, "tasks": [0.5, 0.05], "episodes": 20, "max_steps": 1000, "commit": "abcdef012345"}
    separate = row | {"separate": True, "changes": {}, "augmenter": None}
    append_rows(tmp_path / "learning_curves.jsonl", [row, row | {"steps": 20000, "success": 0.6}, separate])
    text, train = results_document(tmp_path).markdown(), "python benchmarks/learning_curves.py train hiql"
    options = "--steps 5000 20000 --seed 1 --episodes 20 --limit 1000"
    assert text.count(f"{train} maze-scots.npz {options} --set target_decay=0.95\n") == 1
    assert f"{train} maze {options} --separate\n" in text
    figures = "2.0 | 2 | 27.5% | 50% 5% | 1,000 | abcdef0 |"
    assert f"| hiql | maze | scots | target_decay 0.95 | 1 | 5,000 of 20,000 | {figures}" in text
    assert "| 20,000 of 20,000 | 2.0 | 2 | 60.0% |" in text
    assert f"| hiql | maze | recorded | - | 1 | 5,000 | {figures}" in text


def test_a_study_has_a_section_only_where_it_was_measured(tmp_path: Path):
    assert "Ways to repair joins" not in results_document(tmp_path).markdown()
    row = {"dataset": "street tracks", "shortlist": 100, "variant": "whole", "calls": None, "steps": None}
    row |= {"made": 0.96, "off_street": 0.25}
    older = row | {"off_street": 0.5, "commit": "0123456789ab", "date": "2025-01-01"}
    append_rows(tmp_path / "joins.jsonl", [row | {"commit": "abcdef012345", "date": "2026-01-01"}, older])
    text = results_document(tmp_path).markdown()
    assert "python benchmarks/joins.py --streets --keep results/joins.jsonl" in text
    assert (
        "| street tracks | whole | 96.0% | 25.00% | abcdef0 |" in text
    )  # the newest row; what nobody measured is left out
    assert "Neighbours that fit" not in text  # which unrefined joins tell
    assert "Dynamic MSE at joins |" not in text.split("Ways to repair joins")[1]


def test_neighbours_are_compared_by_their_joins_before_refinement(tmp_path: Path):
    row = {"dataset": "maze", "variant": "unrefined", "calls": None, "steps": None, "made": 0.0, "date": "2026-01-01"}
    row |= {"commit": "abcdef012345", "own_continuation": 0.05}
    nearest = row | {"shortlist": None, "gap": {"position": 1.0, "velocities": 4.0}}
    fitting = row | {"shortlist": 100, "gap": {"position": 1.25, "velocities": 2.0}}
    refined = fitting | {"variant": "whole", "gap": {"position": 0.5, "velocities": 0.5}}
    append_rows(tmp_path / "joins.jsonl", [nearest, fitting, refined])
    section = page(tmp_path).split("## Neighbours that fit in posture")[1]
    assert "| dataset | scored | own continuation | gap, position | gap, velocities | commit |" in section
    assert "| maze | nearest latents | 5.0% | 1.00 | 4.00 | abcdef0 |" in section
    assert "| maze | nearest states of 100 | 5.0% | 1.25 | 2.00 | abcdef0 |" in section
    assert "0.50" not in section
