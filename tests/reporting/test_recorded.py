"""What recorded data offers to stitching, on episodes whose segments are known."""

import json
from pathlib import Path

import numpy as np
import pytest

from scots.cli import main
from scots.data import formats
from scots.data.trajectories import Trajectories, offsets_from_lengths
from scots.datasets.specs import SPECS
from scots.reporting.recorded import Segments
from scots.reporting.results_page import results_document

STATES = 30


def walks(*speeds: float) -> Trajectories:
    """Episodes from the centre of the first free cell of the medium maze, which is at (0, 0), along x."""
    meta = SPECS["pointmaze-medium-stitch-v0"].collection.meta(provenance=({"origin": "collected here"},))
    x = np.arange(STATES)[None, :] * np.array(speeds)[:, None]
    observations = np.stack([x, np.zeros_like(x)], axis=2).reshape(-1, 2).astype(np.float32)
    return Trajectories(observations, offsets_from_lengths([STATES] * len(speeds)), meta=meta)


def test_segments_are_the_windows_that_move_and_are_counted_where_they_begin():
    """Of five windows an episode, those of 0.1 a step move 2.5, those of 0.05 only 1.25."""
    found = Segments.of(walks(0.1, 0.05, 0.05, 0.0))
    assert (found.rows, found.protocol_rows) == (120, 5000 * 201)
    assert (found.windows, found.segments) == (20, 5)
    assert found.displacement == pytest.approx(1.25)
    assert found.displacement_90 == pytest.approx(2.5)
    assert (found.cells, found.cells_with_segments, found.fewest, found.typical) == (26, 1, 0, 0.0)


def test_a_segment_counts_in_the_cell_of_its_first_state():
    """Starts at 0, 1, 2, 3 and 4 along x, where the next cell begins at 2."""
    found = Segments.of(walks(1.0))
    assert (found.segments, found.cells_with_segments) == (5, 2)


def test_inspect_prints_them_and_keeps_a_row_that_the_results_page_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, kept = tmp_path / "walks.npz", tmp_path / "recorded.jsonl"
    formats.write(walks(0.125, 0.0625), path)
    assert main(["data", "inspect", str(path), "--json", "--keep", str(kept)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["windows of 26 states that move 2 or more"] == {"share": 0.5, "count": 5}
    page = results_document(tmp_path).markdown()
    assert "scots data inspect pointmaze-medium-stitch-v0 --keep results/recorded.jsonl" in page
    line = "| pointmaze-medium-stitch-v0 | collected here | 60 | 1,005,000 | 2.34 | 3.12 | 50.0% | 1 of 26 | 0 | 0 |"
    assert line in page


def test_there_is_no_row_to_keep_of_own_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, kept = tmp_path / "own.npz", tmp_path / "recorded.jsonl"
    np.savez(path, observations=np.zeros((40, 2)), episode_ends=[40])
    assert main(["data", "inspect", str(path), "--keep", str(kept)]) == 2
    assert "not of a maze" in capsys.readouterr().err
    assert not kept.exists()
