"""Every benchmark runs, at a tiny size, and prints the figures that it is there for."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from scots.agents import AGENTS
from scots.datasets.specs import SPECS
from scots.planners.hd import HierarchicalDiffuser, HierarchicalDiffuserConfig, LevelConfig

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"

PROMISED = {
    "collection": [
        rf"{agent}maze-giant-stitch-v0: [\d,]+ steps/s collected, [\d,]+ steps/s bare, .*: ratio \d+\.\d\d \(target"
        for agent in ("point", "ant")
    ],
    "stitching": [
        rf"{recipe}: [\d,]+ segments, .*\n  walk: .*\n  loop scanning all .*: ratio \d+ .*\n  loop with .*: ratio \d+"
        for recipe in ("paper", "official")
    ],
    "training": [
        r"matmul peak [1-9]\d* GFLOP/s",
        r"[1-9]\d* samples/s, \d+\.\d+x of torch.s default, \d+% of the matmul peak",
        *(
            rf"{name} \(.*\): \d+\.\d updates/s, \d+\.\d+x of torch.s default, "
            r"bound \d+\.\d at the matmul peak, \d+% of it"
            for name in AGENTS
        ),
    ],
    "learning_curves": [
        *(
            rf'"agent": "hiql", .*"all_steps": \[2, 4\], "steps": {steps}, "minutes": \d+\.\d+, .*'
            r'"success": [01]\.\d+, .*"evaluation_seed": 100'
            for steps in (2, 4)
        ),
        r"picture: .*curves\.png",
    ],
    "scaling": [
        rf"{size} trajectories: \d+\.\d s \(\d+\.\d ms a trajectory\), peak [1-9]\d* MB, largest worker [1-9]\d* MB"
        for size in (2, 4)
    ],
    "evaluation": [
        r"evaluation: 4 episodes, \d reached their goal; 4 of 4 outcomes are the same",
        r"plain loop \d+\.\d s, batched \d+\.\d s: \d+\.\dx \(target 5x\)",
    ],
    "streets": [
        r'"off_street_recorded": 0\.\d+, "off_street": [01]\.\d+, .*"one plan, on streets": [01]\.\d+, '
        r'.*"scots plan, on streets": [01]\.\d+, .*"scots plan, replaced": [01]\.\d+, .*"commit": ".+", "date": "20.+"'
    ],
    "own_maze": [
        r'"cells": 49, "recorded_episodes": 12, .*"tasks": \d+, "episodes": \d+, .*"seed": 0, "success": [01]\.\d+, '
    ],
    "app": [
        *(rf"one client, {kind}: \d+ in all, median \d+ ms, p95 \d+ ms \(target \d+\)" for kind in ("stitch", "plan")),
        r"5 clients for 2 s, stitch: \d+ in all",
        r"errors: 0 \(target 0\)\n",
        r"malformed: 300 requests, \{.*\}, 0 not 4xx \(target 0\)",
        r"tracebacks: 0 \(target 0\)",
    ],
    "composition": [
        rf"{name}: 3 plans of 3 chunks, \d+ network calls together .*one at a time .*: ratio \d+\.\d \(target"
        for name in ("cd, interleaved", "cd, parallel", "gsc")
    ],
    "chunks": [
        rf'"way": "{way}", "plans": 3, "chunks": \d\.\d+, "clean": [01]\.\d+, .*"in_walls": [01]\.\d+, "commit": ".+"'
        for way in ("one chunk, ends of recorded windows", "CD", "CD, 40 candidates", "GSC")
    ],
    "plans": [
        rf'"study": "{study}", .*"variant": "{re.escape(variant)}", .*"clean_pairs": [01]\.\d+, "clean_tasks": \[.*\], '
        r'"positions_in_walls": [01]\.\d+, "commit": ".+", "date": "20.+"'
        for study, variant in (
            ("training", "laptop"),
            ("training", "uniform times"),
            ("solver", "DPM-Solver++ 5"),
            ("temperature", "0.25"),
            ("candidates", "8"),
        )
    ],
    "navigation": [
        rf"navigation-{world}-v0: [\d,]+ {unit}/s, [\d,]+ {theirs}: ratio \d+\.\d"
        for world in ("corridor", "building")
        for unit, theirs in (("steps", "with ir-sim's scans"), ("scans", "by ir-sim"))
    ],
    "scans": [
        *(
            rf'"study": "beta", "beta": {beta}, .*"active": \d, "nats": \d+\.\d+, "wrong_pixels": [01]\.\d+'
            for beta in ("0.25", "1.0", "4.0", "16.0", "64.0")
        ),
        r'"study": "places", .*"far": [01]\.\d+, "median_metres": \d+\.\d+',
        r'"study": "joins", .*"joins": 1, "far": [01]\.\d+, "median_metres": \d+\.\d+',
    ],
    "diffuser": [
        rf'"variant": "{variant}", "steps": 2, "behaviour_return": \d+\.\d+, "value_ranks": -?[01]\.\d+, '
        r'"first_step": \d+\.\d+, "plan": \d+\.\d+, "recorded_step": 0\.0\d*, "stays": 0\.\d+, .*"commit": ".+"'
        for variant in ("laptop", "absolute", "no bypass", "v prediction", "unguided", "warm start")
    ],
    "refinement": [r"whole segments [\d,]+ states/s .*, local windows [\d,]+ states/s .*: ratio \d+\.\d \(target 3\)"],
    "joins": [
        rf'"variant": "{variant}", .*"made": [01]\.\d+, "off_data": [01]\.\d+, .*"commit": ".+", "date": "20.+"'
        for variant in ("unrefined", "fade 8", "whole", "renoised 0.2", "held 7", "local 7, context 3, checked")
    ],
}


def test_every_benchmark_is_run_here():
    scripts = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}
    assert scripts == PROMISED.keys()


@pytest.mark.slow
@pytest.mark.mujoco
@pytest.mark.parametrize("name", PROMISED)
def test_it_prints_its_figures_and_leaves_nothing_behind(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    before = written()
    command = [sys.executable, str(BENCHMARKS / f"{name}.py"), "--smoke"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for figures in PROMISED[name]:
        assert re.search(figures, done.stdout), f"{figures} is not in:\n{done.stdout}"
    if name == "stitching":
        check_ratios(done.stdout)
    assert list(tmp_path.iterdir()) == []
    assert written() == before


def written() -> dict[Path, int]:
    """When each file of the docs and results was last written."""
    return {path: path.stat().st_mtime_ns for name in ("docs", "results") for path in (ROOT / name).rglob("*")}


LOOP = r"loop .*: ([\d,]+) ms per trajectory, walk ([\d.]+) ms: ratio (\d+).*, (\d+)% of the choices equal"


def check_ratios(printed: str) -> None:
    """The ratios of the walk are those of the times beside them, and of walks that choose the same."""
    lines = re.findall(LOOP, printed)
    assert len(lines) == 4
    for loop, walk, ratio, equal in lines:
        assert int(ratio) == pytest.approx(int(loop.replace(",", "")) / float(walk), rel=0.05, abs=0.6)
        assert int(equal) == 100


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import plans

    return plans


def test_every_training_variant_is_a_setting_of_its_own(plans: ModuleType):
    default = HierarchicalDiffuser.configure(SPECS["pointmaze-giant-stitch-v0"], states=2001, profile="laptop")
    configs = [default.replace_all(changes) for changes in plans.VARIANTS.values()]
    assert configs[0] == default
    assert len({config.fingerprint() for config in configs}) == len(configs)


def test_waypoints_are_sampled_otherwise_with_the_same_weights(plans: ModuleType):
    level = LevelConfig(width=32, depth=1)
    config = HierarchicalDiffuserConfig(waypoints=5, stride=2, high_every=2, high=level, middle=level, low=level)
    planner = HierarchicalDiffuser(config, {"position": 2}).eval()
    other = plans.sampled_with(planner, {"steps": 3})
    assert other.config == config.replace_all({"high.sampling.steps": 3, "middle.sampling.steps": 3})
    assert planner.config == config
    start, goal = np.zeros((1, 2)), np.ones((1, 2))
    assert not np.array_equal(*(one.plan(start, goal, [0])[0].positions[::4] for one in (planner, other)))
    ends = np.stack([start, goal], axis=1)
    np.testing.assert_array_equal(*(one.draw("low", ends, [np.random.default_rng(0)]) for one in (planner, other)))


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import learning_curves

    return learning_curves


def test_a_learning_curve_is_of_one_kind_of_training_and_the_mean_of_its_seeds(curves: ModuleType):
    shared = {"agent": "hiql", "augmenter": None, "changes": {}, "separate": False, "all_steps": [10, 20]}
    points = [(0, 20, 4.0, 0.5), (0, 10, 2.0, 0.1), (1, 10, 3.0, 0.3)]
    rows = [
        shared | {"seed": seed, "steps": steps, "minutes": minutes, "success": success}
        for seed, steps, minutes, success in points
    ]
    longer, separate = rows[1] | {"all_steps": [10, 40]}, rows[1] | {"separate": True}
    other = rows[1] | {"changes": {"target_decay": 0.95}}
    lines = curves.lines([*rows, longer, separate, other])
    assert list(lines.values()) == [rows, [longer], [separate], [other]]
    minutes, percents = curves.points(rows)
    assert minutes == [2.5, 4.0]
    assert percents == pytest.approx([20, 50])


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import walk_workers

    return walk_workers


@pytest.mark.parametrize("side", ["walk", "naive_walk"])
def test_the_walk_is_timed_in_processor_seconds(side: str, workers: ModuleType, monkeypatch: pytest.MonkeyPatch):
    """Both sides count the time they compute, not the time they wait for a core that others use."""
    segments = {"walk": SimpleNamespace(segments=np.zeros((2, 3))), "naive_walk": [0, 0, 0]}[side]

    def busy_then_waiting(*arguments: object) -> object:
        begin = time.process_time()
        while time.process_time() - begin < 0.05:
            pass
        time.sleep(0.3)
        return segments

    monkeypatch.setattr(workers, side, busy_then_waiting)
    monkeypatch.setattr(workers, "Segments", SimpleNamespace(load=lambda folder: None))
    make = workers.prepare_walk(Path(), None) if side == "walk" else workers.prepare_naive(Path(), None, scan=False)
    calls = 1 if side == "walk" else 2  # the walk takes all trajectories at once
    assert 0.05 * calls <= make(range(2))["seconds"].sum() < 0.05 * calls + 0.2
