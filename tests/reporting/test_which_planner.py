"""The advice on planners says what rows bear out, and nothing of what was not measured."""

from typing import Any

from result_rows import a_row_of

from scots.reporting.which_planner import advice

POINT, ANT = "pointmaze-medium-stitch-v0", "antmaze-medium-stitch-v0"
WINS, SHORT, BESIDE = "It wins or ties with SCoTS", "It falls short of SCoTS", "Beside the published SCoTS"


def rows(table: str, column: str, dataset: str, successes: int) -> list[dict[str, Any]]:
    return [a_row_of(table, column, dataset, task=task, successes=successes) for task in range(1, 6)]


def groups(measured: list[dict[str, Any]]) -> dict[str, str]:
    """What stands behind each of the three beginnings of a sentence."""
    found = {}
    for sentence in advice(measured).words.split(". "):
        for start in (WINS, SHORT, BESIDE):
            if sentence.startswith(start):
                found[start] = sentence
    return found


def test_without_rows_there_is_only_the_rule():
    assert "recorded support" in advice([]).words
    assert groups([]) == {}


def test_datasets_stand_where_their_intervals_put_them():
    measured = [
        *rows("without_diffusion", "recorded support", POINT, 50),
        *rows("planning", "SCoTS", POINT, 50),
        *rows("without_diffusion", "recorded support", ANT, 45),
        *rows("planning", "SCoTS", ANT, 50),
    ]
    found = groups(measured)
    assert set(found) == {WINS, SHORT}
    assert f"{POINT} (100.0 [98.5, 100.0] against 100.0 [98.5, 100.0])" in found[WINS]
    assert f"{ANT} (90.0 [" in found[SHORT]
    assert POINT not in found[SHORT]


def test_where_intervals_overlap_it_is_a_tie():
    measured = [*rows("without_diffusion", "recorded support", ANT, 48), *rows("planning", "SCoTS", ANT, 49)]
    assert set(groups(measured)) == {WINS}


def test_the_published_number_stands_in_where_ours_is_missing():
    found = groups(rows("without_diffusion", "recorded support", ANT, 45))
    assert set(found) == {BESIDE}
    assert "published 97±1" in found[BESIDE]
