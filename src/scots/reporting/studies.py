"""Studies on the results page: one section for each file of rows that a script in benchmarks/ has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scots.reporting.document import Commands, Paragraph, Section, TableBlock, short_number
from scots.reporting.rows import Row, newest, read_rows

_Cell = Callable[[Row], str]


@dataclass(frozen=True)
class Study:
    """A table of the results page: a line per row of a file."""

    title: str
    file: str  # in the folder of results
    key: tuple[str, ...]  # fields that tell one line from another
    command: Callable[[Row], str]  # that measured a row
    columns: dict[str, _Cell]  # title -> cell
    note: str
    shows: Callable[[Row], bool] = lambda row: True  # whether a row of the file is a line

    def section(self, folder: Path) -> Section:
        """Its section, which is empty where nothing was measured."""
        rows = [row for row in newest(read_rows(folder / self.file, self.key), self.key) if self.shows(row)]
        if not rows:
            return Section(self.title, [])
        commands = list(dict.fromkeys(map(self.command, rows)))
        return Section(self.title, [Commands(commands), self._table(rows), Paragraph(self.note)])

    def _table(self, rows: Sequence[Row]) -> TableBlock:
        """Columns that no row fills are left out."""
        columns = {title: [cell(row) for row in rows] for title, cell in self.columns.items()}
        filled = {title: cells for title, cells in columns.items() if set(cells) != {"-"}}
        return TableBlock([*filled], list(zip(*filled.values(), strict=True)))


def _share(field: str, digits: int = 1) -> _Cell:
    return lambda row: "-" if row.get(field) is None else f"{row[field]:.{digits}%}"


def _text(field: str, pattern: str = "{}") -> _Cell:
    return lambda row: "-" if row.get(field) is None else pattern.format(row[field])


def _number(field: str) -> _Cell:
    return lambda row: "-" if row.get(field) is None else short_number(row[field])


def _gap(group: str) -> _Cell:
    return lambda row: _text(group, "{:.2f}")(row["gap"])


def _joins_command(row: Row) -> str:
    data = "--streets" if row["dataset"] == "street tracks" else row["dataset"]
    steps = f" --steps {row['steps']}" if row.get("steps") else ""
    return f"python benchmarks/joins.py {data}{steps} --keep results/joins.jsonl"


_RECORDED = Study(
    title="Recorded data",
    file="recorded.jsonl",
    key=("dataset", "origin", "rows"),
    command=lambda row: f"scots data inspect {row['dataset']} --keep results/recorded.jsonl",
    columns={
        "dataset": _text("dataset"),
        "origin": _text("origin"),
        "rows": _text("rows", "{:,}"),
        "by the protocol": _text("protocol_rows", "{:,}"),
        "displacement": _text("displacement", "{:.2f}"),
        "its 90 % quantile": _text("displacement_90", "{:.2f}"),
        "windows that move": lambda row: f"{row['segments'] / row['windows']:.1%}",
        "cells where one begins": lambda row: f"{row['cells_with_segments']} of {row['cells']}",
        "fewest in a cell": _text("fewest", "{:,}"),
        "median": _text("typical", "{:,.0f}"),
        "commit": lambda row: row["commit"][:7],
    },
    note="""Displacement is the distance between the two ends of a window of 26 states, in the units of the position. A
        window moves if that is at least 2: only such windows are segments to stitch. By the protocol of OGBench,
        `stitch` has 5,000 episodes of 201 states and `explore` 10,000 of 501, in random directions and with more
        noise.""",
)

_JOINS = Study(
    title="Ways to repair joins",
    file="joins.jsonl",
    key=("dataset", "shortlist", "variant", "calls", "steps"),
    command=_joins_command,
    columns={
        "dataset": _text("dataset"),
        "variant": lambda row: row["variant"] + ("" if row["shortlist"] else ", no shortlist"),
        "calls": _text("calls"),
        "training steps": _text("steps", "{:,}"),
        "cells per trajectory": _text("cells", "{:.0f}"),
        "fine cells": _share("fine_cells"),
        "Dynamic MSE at joins": _number("join"),
        "over all places": _number("average"),
        "states made": _share("made"),
        "recorded actions kept": _share("kept_actions"),
        "made states off the data": _share("off_data"),
        "nearer to walls": _share("nearer_to_walls", 2),
        "step lengths": _share("step_lengths"),
        "off the streets": _share("off_street", 2),
        "made states off the streets": _share("off_street_made", 2),
        "states/s": lambda row: f"{row['states_per_second']:,}" if row.get("calls") else "-",
        "commit": lambda row: row["commit"][:7],
    },
    note="""The same stitched trajectories, repaired by networks of one size and training, as many steps as at profile
        `laptop` unless the table says how many. Dynamic MSE is the median by place in a segment: at the join, and the
        average of all places. Fine cells are visited at equal numbers of states; nearer to walls are states that are
        nearer than any recorded one; step lengths say how far they would have to be moved, in recorded medians. Whole:
        all states of a segment are made, as in the paper. Held m: recorded states stay from the m-th after the join on.
        Local m: a network of short windows makes m states around the join; checked: not where they would leave the
        data. Calls are those of the network for every window. [Which was chosen, and why](method.md#local-refinement).
        The shortlist by posture chooses among the 100 nearest segments; without it the nearest are scored.""",
)

_NEIGHBOURS = Study(
    title="Neighbours that fit in posture",
    file="joins.jsonl",
    key=_JOINS.key,
    command=_joins_command,
    shows=lambda row: row["variant"] == "unrefined" and "gap" in row,
    columns={
        "dataset": _text("dataset"),
        "scored": lambda row: f"nearest states of {row['shortlist']}" if row["shortlist"] else "nearest latents",
        "own continuation": _share("own_continuation"),
        **{
            f"gap, {group}": _gap(group)
            for group in ("position", "orientation", "joint angles", "angles", "velocities", "other columns")
        },
        "Dynamic MSE at joins": _number("join"),
        "cells per trajectory": _text("cells", "{:.0f}"),
        "fine cells": _share("fine_cells"),
        "step lengths": _share("step_lengths"),
        "commit": lambda row: row["commit"][:7],
    },
    note="""Joins before refinement: of the nearest latents those are scored that are nearest as states, or simply the
        nearest latents. Own continuation: joins at which the walk goes on in the same episode, which are perfect.
        Gaps are medians over all other joins, in root mean square recorded steps. Coverage and step lengths are those
        of the table above.""",
)

_STREETS = Study(
    title="Own logs: street tracks",
    file="streets.jsonl",
    key=("seed", "profile", "files", "pairs"),
    command=lambda row: f"python benchmarks/streets.py --seeds {row['seed']} --keep results/streets.jsonl",
    columns={
        "tracks": _text("seed", "seed {}"),
        "rows": _text("rows", "{:,}"),
        "states": _text("states", "{:,}"),
        "recorded off the streets": _share("off_street_recorded", 2),
        "stitched off the streets": _share("off_street", 4),
        "least covered street, recorded": _share("least_covered_recorded", 0),
        "least covered street, stitched": _share("least_covered", 0),
        "one plan on the streets": _share("one plan, on streets", 0),
        "cheapest of 8 as drawn": _share("cheapest of 8 as drawn, on streets", 0),
        "`scots plan`": _share("scots plan, on streets", 0),
        "of it along recorded ways": _share("scots plan, replaced", 0),
        "augment, min": _text("augment_minutes", "{:.1f}"),
        "train, min": _text("train_minutes", "{:.1f}"),
        "commit": lambda row: row["commit"][:7],
    },
    note="""60 CSV files each, at profile `laptop`. Off the streets is farther than 5 m from all of them. A street is
        covered where a state lies within 10 m. A plan between two random places on streets is on the streets if all its
        positions are: one plan as drawn, the cheapest of 8, and what `scots plan` answers, which also
        searches part by part, and takes recorded ways where the plan that it found leaves the data.
        The map only scores; nothing that learns sees it.""",
)

_OWN_MAZE = Study(
    title="A maze of one's own",
    file="own_maze.jsonl",
    key=("dataset", "profile", "recorded_episodes"),
    command=lambda row: "python benchmarks/own_maze.py --keep results/own_maze.jsonl",
    columns={
        "dataset": _text("dataset"),
        "cells": _text("cells"),
        "recorded episodes": _text("recorded_episodes"),
        "stitched states": _text("states", "{:,}"),
        "steps of the longest way": _text("path_steps"),
        "waypoints": _text("waypoints"),
        "step limit": _text("max_steps"),
        "episodes": _text("episodes"),
        "success": _share("success"),
        "commit": lambda row: row["commit"][:7],
    },
    note="""HD on stitched data at profile `laptop`, one plan at a time, followed by GCIQL. Lengths and the step limit
        follow from the maze. One setting was chosen here, by whether plans between random recorded positions can be
        walked: that HD is told when to arrive. None was chosen on the five tasks.""",
)


def _curve_command(row: Row) -> str:
    data = row["dataset"] if row["augmenter"] is None else f"{row['dataset']}-{row['augmenter']}.npz"
    steps, changes = " ".join(map(str, row["all_steps"])), " ".join(f"{k}={v}" for k, v in row["changes"].items())
    options = f"--seed {row['seed']} --episodes {row['episodes']} --limit {row['max_steps']}"
    options += " --separate" * row["separate"] + (f" --set {changes}" if changes else "")
    return f"python benchmarks/learning_curves.py train {row['agent']} {data} --steps {steps} {options}"


def _steps_of_curve(row: Row) -> str:
    return f"{row['steps']:,}" + ("" if row["separate"] else f" of {row['all_steps'][-1]:,}")


_CURVES = Study(
    title="What agents that act alone learn in how many minutes",
    file="learning_curves.jsonl",
    key=("agent", "dataset", "augmenter", "profile", "changes", "separate", "all_steps", "seed", "steps"),
    command=_curve_command,
    columns={
        "agent": _text("agent"),
        "dataset": _text("dataset"),
        "data": lambda row: row["augmenter"] or "recorded",
        "settings": lambda row: ", ".join(f"{name} {value}" for name, value in row["changes"].items()) or "-",
        "training seed": _text("seed"),
        "steps": _steps_of_curve,
        "minutes": _text("minutes", "{:.1f}"),
        "threads": _text("cores"),
        "success": _share("success"),
        "by task": lambda row: " ".join(f"{share:.0%}" for share in row["tasks"]),
        "step limit": _text("max_steps", "{:,}"),
        "commit": lambda row: row["commit"][:7],
    },
    note="""At profile `laptop` but for the settings named. Minutes are those of training alone. The learning rate falls
        to zero at the last step of a training, so on the way there success is less than that of a training that ends
        there. Starts and goals are not those of the tables above (evaluation seed 100): settings are chosen here.""",
)

_CHUNKS = Study(
    title="Plans of chunks: where they leave the free space",
    file="chunks.jsonl",
    key=("dataset", "steps", "way"),
    command=lambda row: f"python benchmarks/chunks.py cd --data {row['dataset']}.npz --keep results/chunks.jsonl",
    columns={
        "dataset": _text("dataset"),
        "training steps": _text("steps", "{:,}"),
        "plans by": _text("way"),
        "chunks of a plan": _text("chunks", "{:.1f}"),
        "clean": _share("clean", 0),
        "clean, of four chunks and more": _share("clean_many", 0),
        "positions in walls": _share("in_walls"),
        "commit": lambda row: row["commit"][:7],
    },
    note="""100 plans each, by the same weights: nothing is trained for a line. A plan is clean if none of its positions
        lies inside a wall. One chunk is drawn between the ends of recorded windows, plans of many between random cells
        of the maze; the first line of CD and that of GSC have the settings of profile `laptop`, the others differ in
        one. Starts and goals are those of no evaluation.""",
)


STUDIES = (_RECORDED, _JOINS, _NEIGHBOURS, _STREETS, _OWN_MAZE, _CHUNKS, _CURVES)
"""In the order of the page."""
