"""The one training loop, the base class of every model, and EMA copies (target networks and sampling weights).

Batch n and the noise of step n are functions of (seed, n) alone. So a checkpoint holds no random state, and a run that
was killed and resumed equals an uninterrupted one to the bit.
"""

from __future__ import annotations

import hashlib
import json
import math
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.module import register_module_parameter_registration_hook

from scots.core.config import Config, Seeds
from scots.core.console import console, progress
from scots.core.errors import BadInput
from scots.core.files import atomic, check_input, write_text
from scots.data.trajectories import Meta, Trajectories
from scots.models.logs import RunLog

Batch = dict[str, Tensor]
CHECKPOINT_SECONDS = 60.0
_LOG_POINTS = 200  # logged steps of a run

OnStep = Callable[[int, dict[str, float]], bool | None]


@dataclass(frozen=True)
class TrainingConfig(Config):
    """How long and how fast to train; the same for every model."""

    steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0  # steps of linear rise of the learning rate

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size) < 1 or self.learning_rate <= 0:
            raise BadInput(f"steps, batch_size and learning_rate must be positive: {self}")

    def rate(self, step: int) -> float:
        """The learning rate of a step (from 0)."""
        rise = min(1.0, (step + 1) / (self.warmup + 1))
        fall = 0.5 * (1 + math.cos(math.pi * step / self.steps)) if self.schedule == "cosine" else 1.0
        return self.learning_rate * rise * fall


@dataclass(frozen=True)
class Limits:
    """What may end training before its last step. The steps that are made are the same with and without."""

    minutes: float | None = None  # of wall time; that of an earlier run does not count
    on_step: OnStep | None = None  # called with the number of finished steps and their metrics; False ends training

    def __post_init__(self) -> None:
        if self.minutes is not None and not self.minutes > 0:
            raise BadInput(f"minutes must be positive, got {self.minutes}")


NO_LIMITS = Limits()


class EMA(nn.Module):
    """An exponential moving average of a module's weights: `average <- decay * average + (1 - decay) * weights`.

    Serves as target network, and as the weights that a diffusion model samples with. With warm-up the decay grows as
    (1 + step) / (10 + step) until it is reached, so that short runs forget their initialisation too.
    """

    def __init__(self, source: nn.Module, decay: float, *, warmup: bool = False) -> None:
        super().__init__()
        self.average = deepcopy(source).requires_grad_(False)
        self.decay, self.warmup = decay, warmup

    def forward(self, *inputs: Tensor, **named: Tensor | None) -> Tensor:
        """The output of the averaged module."""
        return self.average(*inputs, **named)

    @torch.no_grad()
    def update(self, source: nn.Module, step: int) -> None:
        """Move towards the source; `step` counts finished steps from 1."""
        decay = min(self.decay, (1 + step) / (10 + step)) if self.warmup else self.decay
        torch._foreach_lerp_(list(self.average.parameters()), list(source.parameters()), 1 - decay)


class Model(nn.Module, ABC):
    """Base of everything that is trained. A subclass says how it is built, what a batch is, and its loss.

    Its config has a field `training: TrainingConfig`. On disk a model is a folder: `config.json` (class, config, sizes,
    what it was trained on) and `model.safetensors` (weights and normalisers).
    """

    config_class: ClassVar[type[Config]]
    learns: ClassVar[bool] = True  # by descent; otherwise building it for a dataset is all
    weights: ClassVar[str | None] = None  # shared by classes that are trained alike and use the weights differently
    meta: Meta = Meta()  # of the training data
    data_fingerprint: str | None = None  # of the training data
    seed: int | None = None  # of the training
    stopped_at: int | None = None  # steps after which training was ended before its last one
    profile: str | None = None  # at whose scale it was configured
    changes: Mapping[str, Any] = MappingProxyType({})  # settings that are not the profile's, by dotted path
    folder: Path | None = None  # where it is saved, if it is

    def __init__(self, config: Config, sizes: dict[str, int]) -> None:
        super().__init__()
        self.config: Any = config
        self.sizes = sizes

    @classmethod
    def training_name(cls) -> str:
        """What its training is known by: classes with the same name can load each other's folders."""
        return cls.weights or cls.__name__

    @classmethod
    @abstractmethod
    def for_data(cls, config: Any, data: Trajectories, **sizes: int) -> Self:
        """Build for a dataset, which gives sizes and normalisers; `sizes` adds those that the data does not tell."""

    @abstractmethod
    def batch(self, data: Trajectories, size: int, rng: np.random.Generator) -> Batch:
        """Draw one batch."""

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss to descend and metrics to log."""

    def ema_copies(self) -> list[tuple[EMA, nn.Module]]:
        """Pairs of an EMA copy and the module it averages."""
        return []

    def parameter_groups(self) -> list[tuple[list[nn.Parameter], float]]:
        """Trainable parameters, in groups with a factor on the learning rate of each."""
        return [([parameter for parameter in self.parameters() if parameter.requires_grad], 1.0)]

    def forward(self, batch: Batch, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, under the name that data-parallel wrappers call."""
        return self.loss(batch, generator)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    def save(self, folder: Path) -> None:
        """Write the folder that `load` reads."""
        description = {
            "model": type(self).__name__,
            "config": self.config.to_dict(),
            "sizes": self.sizes,
            "data": self.meta.to_dict(),
            "data_fingerprint": self.data_fingerprint,
            "seed": self.seed,
            "profile": self.profile,
            "changes": dict(self.changes),
        }
        if self.weights is not None:
            description["weights"] = self.weights
        if self.stopped_at is not None:
            description["stopped_at"] = self.stopped_at
        text = json.dumps(description, indent=1, sort_keys=True)
        _write(folder / "model.safetensors", self.state_dict(), {"config": _digest(text)})
        write_text(folder / "config.json", text)
        self.folder = folder

    @classmethod
    def load(cls, folder: Path, config: Config | None = None) -> Self:
        """Rebuild a saved model; anything missing or of the wrong shape is named.

        A `config` that is given takes the place of the saved one; both must describe the same training.
        """
        weights = folder / "model.safetensors"
        try:
            text = read_description(folder)
            description = json.loads(text)
            if description.get("weights", description["model"]) != cls.training_name():
                raise BadInput(f"{folder}: holds a {description['model']}, not a {cls.__name__}")
            if weights.exists():  # else what reads it says so
                check_input(weights)
            header, tensors = _read(weights)
            too_large = f"{folder}: config.json describes a larger network than model.safetensors holds; train it again"
            with parameter_limit(sum(tensor.numel() for tensor in tensors.values()), too_large):
                model = cls(
                    _acting_config(cls.config_class.from_dict(description["config"]), config), description["sizes"]
                )
            model.meta = Meta.from_dict(description["data"])
            model.data_fingerprint = description["data_fingerprint"]
            model.seed, model.stopped_at = description["seed"], description.get("stopped_at")
            model.profile, model.changes = description["profile"], dict(description["changes"])
            model.load_state_dict(tensors)
            if header.get("config", _digest(text)) != _digest(text):
                raise ValueError("config.json and model.safetensors do not belong together")
        except _LOADING_ERRORS as error:
            reason = " ".join(str(error).split())
            raise BadInput(f"{folder}: not a usable {cls.__name__} ({reason}); train it again") from error
        model.folder = folder
        return model.eval()


def _acting_config(saved: Config, config: Config | None) -> Config:
    if config is not None and config.training_dict() != saved.training_dict():
        raise ValueError("it was trained with other settings")
    return config or saved


_LOADING_ERRORS = (OSError, KeyError, TypeError, AttributeError, ValueError, SafetensorError, RuntimeError, MemoryError)
"""What damaged or made-up files of a model can cause."""


def read_description(folder: Path) -> str:
    """The text of a model's config.json, which is JSON."""
    path = folder / "config.json"
    check_input(path)
    text = path.read_text()
    try:
        json.loads(text)
    except RecursionError as error:
        raise ValueError("config.json is nested too deeply") from error
    return text


@contextmanager
def parameter_limit(most: int, complaint: str) -> Iterator[None]:
    """Refuse networks of more parameters in all than this, as bad input with this complaint.

    Parameters are counted as they are made, before anything is written to their memory: an absurd size is refused at
    once instead of filling the memory.
    """
    count = 0

    def add(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal count
        count += parameter.numel()
        if count > most:
            raise BadInput(complaint)

    hook = register_module_parameter_registration_hook(add)
    try:
        yield
    except RuntimeError as error:  # torch's name for a single parameter that no memory holds
        if "allocate memory" in str(error) or "overflow" in str(error):
            raise BadInput(complaint) from error
        raise
    finally:
        hook.remove()


def _write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata)
        except SafetensorError as error:  # its name for errors of the disk
            raise OSError(str(error)) from error


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    with safe_open(path, framework="pt") as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---------------------------------------------------------------------------------------------------------- the loop


def fit(
    model: Model,
    data: Trajectories,
    *,
    seed: int,
    folder: Path | None = None,
    label: str | None = None,
    limits: Limits = NO_LIMITS,
) -> Model:
    """Train a model on a dataset. With a folder: log there, checkpoint there, and resume the run that is there.

    Runs on whatever device and number of processes `accelerate` finds (launch with torchrun for more than one).
    """
    from accelerate import Accelerator

    config: TrainingConfig = model.config.training
    label, begin, accelerator = label or f"training {type(model).__name__}", time.monotonic(), Accelerator()
    main = accelerator.is_main_process
    model.meta, model.data_fingerprint, model.seed, model.stopped_at = data.meta, data.fingerprint(), seed, None
    optimizer = _optimizer(model, config)
    run = _Run(folder, model, optimizer) if folder else None
    done = run.restore() if run else 0
    if run and main:
        run.log.start(done)
    if done and main:
        console.print(f"{label}: continuing from step {done:,} of {config.steps:,}", soft_wrap=True)
    wrapped, optimizer = accelerator.prepare(model, optimizer)
    model.train()
    bar_of_steps = progress(label, config.steps, "steps", completed=done)
    with bar_of_steps as bar, _stop_signals() as stopped, fast_products(accelerator.device):
        while done < config.steps:
            loss, metrics = _step(model, data, done, seed, accelerator, wrapped, optimizer)
            done += 1
            bar.advance(1)
            enough = _reached(limits, done, begin, loss, metrics, accelerator) and done < config.steps
            if run and main:
                run.after(done, loss, metrics, config.steps, stop=bool(stopped) or enough)
            if stopped:
                raise KeyboardInterrupt
            if enough:
                break
    model.eval()
    model.stopped_at = done if done < config.steps else None
    if model.stopped_at and main:
        again = "; the same call continues from there" if run else ""
        console.print(f"{label}: stopped after {done:,} of {config.steps:,} steps{again}", soft_wrap=True)
    if run and main:
        run.finish(model)
    return model


@contextmanager
def fast_products(device: torch.device) -> Iterator[None]:
    """Matrix products in float32 by oneDNN instead of MKL on an AMD CPU, where MKL takes twice as long.

    On an Intel Xeon MKL is as fast or up to 1.3 times faster, so it is left alone there. torch asks oneDNN for products
    of float32 only if they may be rounded ("medium"), which oneDNN does not do without AMX: no AMD CPU has it.
    Attention is computed product by product meanwhile: torch's fused kernel calls oneDNN for every head, which takes
    many times longer.
    """
    features = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    if "AMD" not in features.get("cpu_name", "") or not features.get("avx512_f"):
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def _step(
    model: Model,
    data: Trajectories,
    step: int,
    seed: int,
    accelerator: Any,
    wrapped: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> tuple[Tensor, dict[str, Tensor]]:
    """One step (from 0) of descent: everything random in it follows from the seed, the step and the process."""
    config: TrainingConfig = model.config.training
    seeds, rank = Seeds(seed), accelerator.process_index
    for group in optimizer.param_groups:
        group["lr"] = config.rate(step) * group["rate_factor"]
    size = max(1, config.batch_size // accelerator.num_processes)
    batch = model.batch(data, size, seeds.stream("batch", step, rank))
    batch = {name: tensor.to(accelerator.device) for name, tensor in batch.items()}
    generator = torch.Generator().manual_seed(seeds.integer("noise", step, rank))
    loss, metrics = wrapped(batch, generator)
    optimizer.zero_grad(set_to_none=True)
    accelerator.backward(loss)
    optimizer.step()
    for average, source in model.ema_copies():
        average.update(source, step + 1)
    return loss, metrics


def _reached(
    limits: Limits, done: int, begin: float, loss: Tensor, metrics: dict[str, Tensor], accelerator: Any
) -> bool:
    """Whether training is to end after this many steps; the main process decides for all."""
    if limits.minutes is None and limits.on_step is None:
        return False
    late = limits.minutes is not None and time.monotonic() - begin > 60 * limits.minutes
    if accelerator.is_main_process and limits.on_step is not None:
        late = limits.on_step(done, _numbers(loss, metrics)) is False or late
    if accelerator.num_processes > 1:
        vote = torch.tensor(float(late and accelerator.is_main_process), device=accelerator.device)
        late = bool(accelerator.reduce(vote, "sum") > 0)
    return late


def _optimizer(model: Model, config: TrainingConfig) -> torch.optim.Optimizer:
    groups = [{"params": parameters, "rate_factor": factor} for parameters, factor in model.parameter_groups()]
    return torch.optim.AdamW(groups, config.learning_rate, weight_decay=config.weight_decay, fused=True)


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect SIGTERM and Ctrl-C instead of exiting at once, so that the step is finished and a checkpoint written."""
    received: list[int] = []
    before: dict[int, Any] = {}
    for name in (signal.SIGTERM, signal.SIGINT):
        try:
            before[name] = signal.signal(name, lambda number, _: received.append(number))
        except ValueError:  # not the main thread: the main thread handles signals
            break
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def identity(model: Model) -> str:
    """Everything that decides what a training run ends in: class, config, sizes, data and seed, as JSON."""
    parts = [model.training_name(), model.config.training_dict(), model.sizes, model.data_fingerprint, model.seed]
    parts += [] if model.stopped_at is None else [model.stopped_at]
    return json.dumps(parts, sort_keys=True)


class _Run:
    """A training run's folder: metrics, one checkpoint file, and the finished model."""

    def __init__(self, folder: Path, model: Model, optimizer: torch.optim.Optimizer) -> None:
        self.folder, self.model, self.optimizer = folder, model, optimizer
        self.identity = identity(model)
        self.path, self.saved = folder / "checkpoint.safetensors", time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self.log = RunLog(folder, self.identity)

    def restore(self) -> int:
        """Load the checkpoint of the same run, if there is one; return the number of finished steps."""
        if not self.path.exists():
            return 0
        try:
            check_input(self.path)
            header, tensors = _read(self.path)
        except (OSError, SafetensorError) as error:
            raise BadInput(f"{self.path}: cannot be read ({error}); remove it to train from the beginning") from error
        if header.get("identity") != self.identity:
            raise BadInput(
                f"{self.path}: belongs to a run with other settings or other data; remove it or choose another folder"
            )
        self.model.load_state_dict({name[6:]: value for name, value in tensors.items() if name.startswith("model.")})
        state = self.optimizer.state_dict()
        state["state"] = _nested({name[6:]: value for name, value in tensors.items() if name.startswith("state.")})
        self.optimizer.load_state_dict(state)
        return int(header["step"])

    def after(self, step: int, loss: Tensor, metrics: dict[str, Tensor], steps: int, *, stop: bool) -> None:
        """Log at regular steps; checkpoint every minute and before stopping."""
        if step % max(1, steps // _LOG_POINTS) == 0 or step == steps:
            self.log.write(step, _numbers(loss, metrics))
        if stop or time.monotonic() - self.saved > CHECKPOINT_SECONDS:
            self._checkpoint(step)

    def _checkpoint(self, step: int) -> None:
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"state.{number}.{name}": torch.as_tensor(value) for name, value in state.items()}
        _write(self.path, tensors, {"identity": self.identity, "step": str(step)})
        self.saved = time.monotonic()

    def finish(self, model: Model) -> None:
        """Write the model, and remove the checkpoint unless training was ended early and can go on from there."""
        self.log.close()
        model.save(self.folder)
        if model.stopped_at is None:
            self.path.unlink(missing_ok=True)


def _numbers(loss: Tensor, metrics: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(value.detach()) for name, value in {"loss": loss, **metrics}.items()}


def _nested(flat: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """ "3.exp_avg" -> {3: {"exp_avg": ...}}."""
    nested: dict[int, dict[str, Tensor]] = {}
    for name, value in flat.items():
        number, _, field = name.partition(".")
        nested.setdefault(int(number), {})[field] = value
    return nested
