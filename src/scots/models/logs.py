"""Where the metrics of training go: a JSONL file beside TensorBoard or Weights & Biases, or nowhere."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, Protocol

from scots.core.errors import BadInput, require
from scots.core.files import write_text

Log = Literal["tensorboard", "wandb", "none"]

_chosen: ContextVar[Log] = ContextVar("log", default="tensorboard")


@contextmanager
def log_to(log: Log) -> Iterator[None]:
    """Log all training of the block there, that of an augmenter's models too."""
    if log == "wandb":
        require("wandb", "wandb")  # say now that it is missing, not after minutes of other work
    token = _chosen.set(log)
    try:
        yield
    finally:
        _chosen.reset(token)


class Writer(Protocol):
    """Something that draws curves."""

    def write(self, step: int, values: dict[str, float]) -> None:
        """Add one point to each curve."""

    def close(self) -> None:
        """Finish writing."""


class RunLog:
    """The log of one training run, in its folder."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity
        self._metrics, self._begin = folder / "metrics.jsonl", time.monotonic()
        self._log = _chosen.get()
        self._writer: Writer | None = None

    def start(self, step: int) -> None:
        """Drop what was logged after this step: the run that wrote it was killed past its last checkpoint."""
        if self._log == "none":
            return
        lines = self._metrics.read_text().splitlines() if self._metrics.exists() else []
        kept = [line for line in lines if json.loads(line)["step"] <= step]
        write_text(self._metrics, "".join(f"{line}\n" for line in kept))
        self._writer = (_WandB if self._log == "wandb" else _TensorBoard)(self._folder, self._identity)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Log the metrics of a step."""
        if self._writer is None:
            return
        self._writer.write(step, values)
        with self._metrics.open("a") as file:
            file.write(json.dumps({"step": step, "seconds": round(time.monotonic() - self._begin, 2)} | values) + "\n")

    def close(self) -> None:
        """Finish writing."""
        if self._writer is not None:
            self._writer.close()


class _TensorBoard:
    def __init__(self, folder: Path, identity: str) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _WandB:
    """A run of the project "scots" in Weights & Biases, which a continued training continues."""

    def __init__(self, folder: Path, identity: str) -> None:
        wandb: Any = require("wandb", "wandb")
        place = hashlib.sha256(f"{folder.resolve()} {identity}".encode()).hexdigest()[:16]
        model, config, *_ = json.loads(identity)
        options = {"project": "scots", "name": f"{model} {folder.name}", "id": place, "resume": "allow"}
        try:
            self._run = wandb.init(dir=str(folder), config=config, **options)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise BadInput(f"wandb: {reason}; run `wandb login`, or set WANDB_MODE=offline") from error

    def write(self, step: int, values: dict[str, float]) -> None:
        self._run.log(values, step=step)

    def close(self) -> None:
        self._run.finish()
