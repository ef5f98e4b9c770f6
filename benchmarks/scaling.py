"""Cost of augmentation as the number of trajectories grows: wall time and peak memory, in one run; drawn as a picture.

Models are trained once, before anything is timed. Each size runs in a process of its own, to measure its own memory.
"""

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from scots.augmenters.scots import augment, configure, prepare
from scots.envs import toy

SIZES = (500, 1000, 2000, 4000)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scaling.png"


def run(trajectories: int) -> None:
    """Augment and print seconds and peak megabytes (of this process, and of its largest worker)."""
    data = toy.make()
    config = replace(configure(data, "smoke"), trajectories=trajectories)
    prepare(data, config, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        augment(data, config, out=Path(folder) / "aug.npz", workers=2)
        seconds = time.perf_counter() - begin
    memory = [resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(seconds, *memory)


def main() -> None:
    rows = []
    for size in (SIZES[0], *SIZES):  # the first run trains and warms up; it is not counted
        words = [sys.executable, __file__, str(size)]
        output = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
        rows.append((size, *map(float, output)))
    rows = rows[1:]
    for size, seconds, own, worker in rows:
        each = f"{1000 * seconds / size:.1f} ms a trajectory"
        print(f"{size:,} trajectories: {seconds:.1f} s ({each}), peak {own:.0f} MB, largest worker {worker:.0f} MB")
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = [row[0] for row in rows]
    left.plot(sizes, [row[1] for row in rows], "o-", color="#2b6cb0")
    left.set(xlabel="trajectories", ylabel="seconds", title="time grows in proportion", xlim=0, ylim=0)
    for column, label in ((2, "main process"), (3, "largest worker")):
        right.plot(sizes, [row[column] for row in rows], "o-", label=label)
    right.set(xlabel="trajectories", ylabel="peak MB", title="memory stays flat", xlim=0, ylim=0)
    right.legend(frameon=False)
    figure.savefig(PICTURE, dpi=120)
    print(f"picture: {PICTURE}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(int(sys.argv[1]))
    else:
        main()
