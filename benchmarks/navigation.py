"""Steps per second of the robot's environment, by itself and with ir-sim's own scans in place of ours.

Both sides drive the same commands in the same world on one core, counted in processor seconds: what other programs do
at the same time does not matter much. The last line is the caster alone: both cast the same scans.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from scots.data.trajectories import Array
from scots.datasets.specs import SPECS
from scots.envs.base import Task
from scots.envs.lidar import cast_rays, wall_segments
from scots.envs.navigation import DISTANCES, LONGEST_RANGE, PERSON_RADIUS, RAYS, WORLDS, Navigation, make_simulator

STEPS, SMOKE_STEPS = 1000, 20
LIDAR = {"name": "lidar2d", "range_max": LONGEST_RANGE, "number": RAYS + 1, "angle_range": 6.2831853}
"""Two pi itself is taken for zero, and the last ray is the first again."""


def rate(count: int, act: Callable[[int], object]) -> float:
    """How often something is done in a second of the processor."""
    begin = time.process_time()
    for number in range(count):
        act(number)
    return count / (time.process_time() - begin)


def poses(world: str, count: int) -> Array:
    """Random places on the floor with random headings (N, 3)."""
    rng, maze = np.random.default_rng(0), WORLDS[world].maze
    cells = np.array(maze.cells)[rng.integers(len(maze.cells), size=count)]
    return np.column_stack([maze.centre(cells) + rng.uniform(-0.2, 0.2, (count, 2)), rng.uniform(-3, 3, count)])


def turn_rates(world: str, steps: int) -> tuple[float, float]:
    """Steps a second of a robot that turns on the spot, here and with ir-sim's scans."""
    collection = SPECS[world].collection
    assert collection is not None
    [environment] = Navigation.make(collection.meta(), 1)
    environment.reset(Task(0, (), DISTANCES[0]), np.random.default_rng(0))
    theirs = make_simulator(WORLDS[world], sensors=[LIDAR], state=poses(world, 1)[0].tolist())
    ours = rate(steps, lambda n: environment.step(np.array([-1.0, 0.5])))
    return ours, rate(steps // 4, lambda n: theirs.step([0.0, 0.3]))


def scan_rates(world: str, steps: int) -> tuple[float, float]:
    """Scans a second, cast here and by ir-sim."""
    places, nobody = poses(world, steps), np.empty((0, 2))
    walls, theirs = wall_segments(WORLDS[world].maze.outlines()), make_simulator(WORLDS[world], sensors=[LIDAR])
    sensor = theirs.robot.sensors[0]

    def cast(n: int) -> Array:
        return cast_rays(walls, nobody, PERSON_RADIUS, places[n, :2], places[n, 2], RAYS, LONGEST_RANGE)

    return rate(steps, cast), rate(steps // 4, lambda n: sensor.step(places[n][:, None]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="the same at a tiny size, only to see that it runs")
    steps = SMOKE_STEPS if parser.parse_args().smoke else STEPS
    for world in WORLDS:
        ours, theirs = turn_rates(world, steps)
        rates = f"{ours:,.0f} steps/s, {theirs:,.0f} with ir-sim's scans"
        print(f"{world}: {rates}: ratio {ours / theirs:.1f}")
    for world in ("navigation-corridor-v0", "navigation-building-v0"):
        ours, theirs = scan_rates(world, steps)
        print(f"{world}: {ours:,.0f} scans/s, {theirs:,.0f} by ir-sim: ratio {ours / theirs:.1f}")


if __name__ == "__main__":
    main()
