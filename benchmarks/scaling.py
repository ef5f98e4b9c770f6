"""Cost of augmentation as the number of trajectories grows: wall time and peak memory, in one run; drawn as a picture.

A first run trains the models and is not counted. Each size runs in a process of its own, to measure its own memory.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from matplotlib.figure import Figure

from scots.augmenters import augmenter_of
from scots.datasets import toy
from scots.datasets.specs import spec_of

SIZES = (500, 1000, 2000, 4000)
SMOKE_SIZES = (2, 4)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scaling.png"


def run(trajectories: int) -> None:
    """Augment and print seconds and peak megabytes (of this process, and of its largest worker)."""
    data, augmenter = toy.make(), augmenter_of("scots")
    config = augmenter.configure(spec_of(data), "smoke").replace_at("trajectories", trajectories)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        augmenter.augment(data, config, seed=0, out=Path(folder) / "aug.npz", profile="smoke", workers=2)
        seconds = time.perf_counter() - begin
    memory = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(seconds, *memory)


def run_apart(trajectories: int, home: str) -> tuple[float, ...]:
    """The numbers that `run` prints in a process of its own; `home` keeps the models from one process to the next."""
    words, environment = [sys.executable, __file__, str(trajectories)], os.environ | {"SCOTS_HOME": home}
    output = subprocess.run(words, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return tuple(map(float, output.split()))


def draw(rows: list[tuple[float, ...]], picture: Path) -> None:
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = [row[0] for row in rows]
    left.plot(sizes, [row[1] for row in rows], "o-", color="#2b6cb0")
    left.set(xlabel="trajectories", ylabel="seconds", title="time grows in proportion", xlim=0, ylim=0)
    for column, label in ((2, "main process"), (3, "largest worker")):
        right.plot(sizes, [row[column] for row in rows], "o-", label=label)
    right.set(xlabel="trajectories", ylabel="peak MB", title="memory stays flat", xlim=0, ylim=0)
    right.legend(frameon=False)
    figure.savefig(picture, dpi=120)
    print(f"picture: {picture}")


def measure(sizes: tuple[int, ...], picture: Path, home: str) -> None:
    run_apart(sizes[0], home)  # trains and warms up
    rows = [(size, *run_apart(size, home)) for size in sizes]
    for size, seconds, own, worker in rows:
        each = f"{1000 * seconds / size:.1f} ms a trajectory"
        print(f"{size:,} trajectories: {seconds:.1f} s ({each}), peak {own:.0f} MB, largest worker {worker:.0f} MB")
    draw(rows, picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    parser.add_argument("trajectories", nargs="?", type=int, help="measure this size alone, in this process")
    options = parser.parse_args()
    if options.trajectories:
        run(options.trajectories)
        return
    with tempfile.TemporaryDirectory() as home:
        sizes, picture = (SMOKE_SIZES, Path(home) / PICTURE.name) if options.smoke else (SIZES, PICTURE)
        measure(sizes, picture, home)


if __name__ == "__main__":
    main()
