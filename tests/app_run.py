"""A small run on the toy corridor, made once: recorded data, stitched data, a planner, and a server that shows them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import uvicorn

from scots.app.server import bind, build_app
from scots.app.session import ROLLOUTS, Options, Session, open_session
from scots.data.trajectories import Trajectories
from scots.datasets import toy
from scots.envs.base import Task
from scots.evaluation.rollout import Episode
from scots.experiments.models import augment, train_model
from scots.reporting.rollout_file import save_rollouts
from scots.reporting.rollouts import Rollout

QUICK = {
    "trajectories": 4,
    "refine": False,
    "embedding.training.steps": 80,
    "inverse.training.steps": 2,
    "stitching.segment": 9,
}


@dataclass(frozen=True)
class Run:
    """Where the parts of the run are."""

    home: Path
    data: Trajectories
    recorded: Path
    augmented: Path
    planner: Path

    def open(self, name: str | Path, **options: object) -> Session:
        return open_session(str(name), Options(profile="smoke", **options))


def rollout_of(data: Trajectories) -> Rollout:
    """An episode of a dataset as if a planner had been followed in it."""
    states = data.observations[:20]
    episode = Episode(Task(1), 0, True, 19, np.zeros(19), states[-1], states)
    return Rollout(episode, {0: states[::2], 10: states[10:]}, [states[min(n + 3, 19)] for n in range(19)])


def make_run(root: Path) -> Run:
    """Record, stitch and train in a folder; `$SCOTS_HOME` must be its home."""
    data = toy.make(episodes=80)
    made = Run(root / "home", data, root / "recorded.npz", root / "aug.npz", root / "planner")
    data.save(made.recorded)
    stitched = augment(data, profile="smoke", changes=QUICK, out=made.augmented, workers=1)
    train_model("hd", stitched, profile="smoke", folder=made.planner, recorded=data, steps=3)
    save_rollouts([rollout_of(data)], data.meta, made.planner / ROLLOUTS)
    return made


@contextmanager
def serving(session: Session) -> Iterator[tuple[str, int]]:
    """A real server on a port of its own."""
    listener = bind("127.0.0.1", 0)
    config = uvicorn.Config(build_app(session), log_level="warning", access_log=False, ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        listener.close()


def without(session: Session, *parts: str) -> Session:
    """The same session without some of its parts."""
    missing = session.scene.missing | dict.fromkeys(parts, "scots doctor")
    scene = session.scene.model_copy(update={"missing": missing})
    names = {"distance": "states", "stitch": "explorer", "plan": "plans"}
    return replace(session, scene=scene, **{names[part]: None for part in parts})
