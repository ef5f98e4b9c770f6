"""Distances and walks as the page shows them, against the embedding and the walk themselves."""

import numpy as np
import pytest
from app_run import Run

from scots.app.messages import DistanceRequest, PlanRequest, StitchRequest
from scots.app.session import Session
from scots.augmenters.stitching import choices, walk
from scots.core.config import Seeds
from scots.core.errors import BadInput

START, FAR = (3.0, 5.0), (7.0, 1.0)


def test_distances_are_those_of_the_embedding_and_zero_at_the_state(session: Session):
    answer = session.states.distances(DistanceRequest(start=START))
    states, grid = session.states, session.scene.grid
    assert answer.state == START
    assert len(answer.distances) == len(grid.cells)
    row = states.nearest(START)
    for place, found in zip(states.places, answer.distances, strict=True):
        expected = np.linalg.norm(states.latents[place] - states.latents[row])
        assert found == pytest.approx(expected, abs=0.06)
    cells = (states.points[states.places] - grid.low) / grid.edge
    assert np.array_equal(np.floor(cells), grid.cells)
    occupied = {tuple(cell) for cell in np.floor((states.points - grid.low) / grid.edge).astype(int).tolist()}
    assert occupied == {tuple(cell) for cell in grid.cells}  # every state is in a cell that is drawn


def test_a_point_far_away_is_the_nearest_recorded_state(session: Session):
    answer = session.states.distances(DistanceRequest(start=(1e6, 1e6)))
    nearest = np.linalg.norm(session.states.points - 1e6, axis=1).argmin()
    assert answer.state == session.states.point(session.states.points[nearest])


def test_a_stitch_takes_the_candidate_with_the_highest_score(session: Session):
    answer = session.explorer.stitch(StitchRequest(start=START, direction=FAR, stitches=12))
    assert (answer.state, answer.towards) == (START, FAR)
    assert len(answer.stitches) == 12
    for stitch in answer.stitches:
        assert len(stitch.paths) == len(stitch.score) == session.explorer.config.candidates
        assert stitch.score[stitch.best] == pytest.approx(max(stitch.score), abs=1e-3)
    recorded = {tuple(point) for point in session.states.rounded(session.states.points)}
    assert {tuple(point) for stitch in answer.stitches for path in stitch.paths for point in path} <= recorded


def test_without_novelty_progress_alone_decides(session: Session):
    answer = session.explorer.stitch(StitchRequest(start=START, direction=FAR, novelty_weight=0, stitches=5))
    for stitch in answer.stitches:
        assert stitch.progress[stitch.best] == pytest.approx(max(stitch.progress), abs=1e-3)


@pytest.mark.parametrize("direction", [None, FAR])
def test_a_short_walk_is_the_beginning_of_a_long_one(session: Session, direction: tuple[float, float] | None):
    long, short = (
        session.explorer.stitch(StitchRequest(start=START, direction=direction, draw=3, stitches=n)) for n in (9, 4)
    )
    assert long.stitches[:4] == short.stitches


def test_drawn_directions_differ_and_are_drawn_again_alike(session: Session):
    first, again, other = (
        session.explorer.stitch(StitchRequest(start=START, draw=draw, novelty_weight=0, stitches=8))
        for draw in (1, 1, 2)
    )
    assert first == again
    assert first.stitches != other.stitches


def test_a_direction_to_the_start_itself_is_refused_in_one_line(session: Session):
    with pytest.raises(BadInput, match="move either of them"):
        session.explorer.stitch(StitchRequest(start=START, direction=START))


def test_the_walk_of_the_page_is_the_walk_of_the_augmenter(session: Session, run: Run):
    """The same start and direction give the same segments as the batched walk that made the data."""
    explorer, segments = session.explorer, session.explorer.segments
    seeds, stitches = Seeds(0), explorer.config.stitches
    made = walk(segments, explorer.config, seeds, range(1))
    stream = seeds.stream("walk", 0)
    first = int(segments.starts[stream.integers(len(segments.starts))])
    towards = stream.standard_normal(segments.latents.shape[1])
    found = list(choices(segments, explorer.config, np.array([first]), (towards / np.linalg.norm(towards))[None]))
    assert [int(own.starts[0, own.best[0]]) for own in found] == made.segments[0].tolist()
    assert len(found) == stitches


def test_plans_lead_from_start_to_goal_and_the_cheapest_is_shown(session: Session):
    answer = session.plans.plan(PlanRequest(start=START, goal=FAR, candidates=3))
    assert (answer.path[0], answer.path[-1]) == (START, FAR)
    assert answer.cost == min(own.cost for own in answer.candidates)
    assert len(answer.candidates) == 3
    assert answer == session.plans.plan(PlanRequest(start=START, goal=FAR, candidates=3))
    outside = session.plans.plan(PlanRequest(start=(-100, -100), goal=FAR, candidates=1))
    assert min(np.linalg.norm(session.plans.centers - outside.path[0], axis=1)) < 1e-3  # a recorded place instead
