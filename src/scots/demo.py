"""`make demo`: the main job end to end, as a newcomer would type it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scots import cli

DATASET = "pointmaze-medium-stitch-v0"


def main(folder: Path) -> int:
    """Collect a small PointMaze set in the real simulator, inspect it, and write its picture into the folder."""
    os.environ.setdefault("SCOTS_HOME", str(folder / "home"))
    data, picture = folder / f"{DATASET}.npz", folder / "data.png"
    commands = [
        ["doctor"],
        ["data", "collect", DATASET, "--episodes", "300", "--out", str(data), "--force"],
        ["data", "inspect", str(data), "--png", str(picture)],
    ]
    for command in commands:
        print(f"\n$ scots {' '.join(command)}", flush=True)
        if code := cli.main(command):
            return code
    print(f"\nThe picture is {picture}. Next: scots data inspect YOUR_LOGS --position x,y --png logs.png")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
