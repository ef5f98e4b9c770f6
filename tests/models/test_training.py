"""The loop: exact resume, EMA copies, parameter groups, schedules, self-contained folders."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from scots.agents.crl import CRL, CRLConfig
from scots.agents.gciql import GCIQL, GCIQLConfig
from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.augmenters.refinement import InverseDynamics, InverseDynamicsConfig, Stitcher, StitcherConfig
from scots.core.errors import BadInput
from scots.datasets import toy
from scots.models import training
from scots.models.cache import is_trained
from scots.models.logs import log_to
from scots.models.training import EMA, Limits, TrainingConfig, fast_products, fit, identity
from scots.planners.hd import HierarchicalDiffuser, HierarchicalDiffuserConfig, LevelConfig

DATA = toy.make(episodes=10)
SHORT = TrainingConfig(steps=8, batch_size=16, learning_rate=1e-3, weight_decay=1e-5, schedule="cosine", warmup=2)
LEVEL = LevelConfig(width=16, depth=1, head_width=8, frequencies=2)
CASES = {
    "expectile": (TemporalDistance, TemporalDistanceConfig(hidden=(16,), latent=4, training=SHORT)),
    "constrained": (
        TemporalDistance,
        TemporalDistanceConfig(form="constrained", hidden=(16,), latent=4, training=SHORT),
    ),
    "stitcher": (Stitcher, StitcherConfig(width=16, depth=1, head_width=8, training=SHORT)),
    "chord stitcher": (Stitcher, StitcherConfig(width=16, depth=1, frame="chord", training=SHORT)),
    "inverse": (InverseDynamics, InverseDynamicsConfig(hidden=(16, 16), dropout=0.0, training=SHORT)),
    "gciql": (GCIQL, GCIQLConfig(hidden=(16, 16), training=SHORT)),
    "crl": (CRL, CRLConfig(hidden=(16, 16), training=SHORT)),
    "hd": (
        HierarchicalDiffuser,
        HierarchicalDiffuserConfig(waypoints=5, stride=8, high=LEVEL, low=LEVEL, training=SHORT),
    ),
}
SIZES = {Stitcher: {"tokens": 9, "context": 1}}


def build(case: str):
    kind, config = CASES[case]
    torch.manual_seed(0)
    return kind.for_data(config, DATA, **SIZES.get(kind, {}))


def weights(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def assert_same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize("case", CASES)
def test_two_runs_are_bitwise_equal(case: str):
    assert_same(weights(fit(build(case), DATA, seed=3)), weights(fit(build(case), DATA, seed=3)))


@pytest.mark.parametrize("case", CASES)
def test_interrupted_and_continued_equals_uninterrupted(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    straight = weights(fit(build(case), DATA, seed=3))
    model, batch = build(case), type(build(case)).batch

    def interrupts(self, data, size, rng):
        interrupts.calls += 1
        if interrupts.calls == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return batch(self, data, size, rng)

    interrupts.calls = 0
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "batch", interrupts)
        with pytest.raises(KeyboardInterrupt):
            fit(model, DATA, seed=3, folder=tmp_path)
    assert not (tmp_path / "model.safetensors").exists()
    continued = fit(build(case), DATA, seed=3, folder=tmp_path)
    assert_same(weights(continued), straight)
    assert_same(weights(type(continued).load(tmp_path)), straight)
    steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 9))
    assert not (tmp_path / "checkpoint.safetensors").exists()


PROGRAM = """
import sys, time, torch
from pathlib import Path
import scots.models.training
from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.datasets import toy
from scots.models.training import TrainingConfig, fit
scots.models.training.CHECKPOINT_SECONDS = 0.0
torch.manual_seed(0)
training = TrainingConfig(60, 16, 1e-3, schedule="cosine")
config = TemporalDistanceConfig(form="constrained", hidden=(16,), training=training)
data = toy.make(episodes=10)
draw = TemporalDistance.batch
def slowly(self, *arguments):
    time.sleep(float(sys.argv[2]))
    return draw(self, *arguments)
TemporalDistance.batch = slowly
fit(TemporalDistance.for_data(config, data), data, seed=0, folder=Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_killed_training_continues_to_the_same_bits(tmp_path: Path):
    def run(folder: str, pause: float) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path / folder), str(pause)], stderr=subprocess.DEVNULL
        )

    assert run("straight", 0).wait() == 0
    process = run("killed", 0.05)
    checkpoint = tmp_path / "killed" / "checkpoint.safetensors"
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert checkpoint.exists()
    assert run("killed", 0).wait() == 0
    assert (tmp_path / "killed/model.safetensors").read_bytes() == (
        tmp_path / "straight/model.safetensors"
    ).read_bytes()


PARALLEL = """
import sys, torch
from pathlib import Path
from scots.augmenters.embedding import TemporalDistance, TemporalDistanceConfig
from scots.datasets import toy
from scots.models.training import Limits, TrainingConfig, fit
torch.manual_seed(0)
training = TrainingConfig(10, 16, 1e-3, schedule="cosine")
data = toy.make(episodes=10)
model = TemporalDistance.for_data(TemporalDistanceConfig(form="constrained", hidden=(16,), training=training), data)
fit(model, data, seed=0, folder=Path(sys.argv[1]))
rank = torch.distributed.get_rank()
assert torch.distributed.get_world_size() == 2
model.save(Path(sys.argv[1]) / f"rank{rank}")
stops = Limits(on_step=lambda step, _: step < 4)  # called in one process, it ends training in both
assert fit(model, data, seed=0, limits=stops).stopped_at == 4
"""


@pytest.mark.slow
def test_two_processes_train_one_model(tmp_path: Path):
    """Launched by torchrun, each process draws its own half of every batch and both end with the same weights."""
    script = tmp_path / "train.py"
    script.write_text(PARALLEL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    launch = [
        "-m",
        "torch.distributed.run",
        "--nproc_per_node",
        "2",
        "--master_addr",
        "127.0.0.1",
        "--master_port",
        port,
    ]
    command = [sys.executable, *launch, str(script), str(tmp_path / "run")]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, timeout=120)
    ranks = [(tmp_path / "run" / f"rank{n}" / "model.safetensors").read_bytes() for n in range(2)]
    assert ranks[0] == ranks[1] == (tmp_path / "run" / "model.safetensors").read_bytes()


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(training._Run, "finish", lambda self, model: None)
    fit(build("inverse"), DATA, seed=0, folder=tmp_path)
    with pytest.raises(BadInput, match="other settings"):
        fit(build("inverse"), DATA, seed=1, folder=tmp_path)


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(training._Run, "finish", lambda self, model: None)
    fit(build("inverse"), DATA, seed=0, folder=tmp_path)
    with pytest.raises(BadInput, match="other data"):
        fit(build("inverse"), DATA[:5], seed=0, folder=tmp_path)


class TwoRates(InverseDynamics):
    """A model with a parameter that learns at a rate of its own, as a dual variable does."""

    def __init__(self, config: InverseDynamicsConfig, sizes: dict[str, int]) -> None:
        super().__init__(config, sizes)
        self.dual = nn.Parameter(torch.zeros(()))

    def loss(self, batch, generator):
        loss, metrics = super().loss(batch, generator)
        return loss + self.dual, metrics

    def parameter_groups(self):
        return [(list(self.net.parameters()), 1.0), ([self.dual], 10.0)]


def test_parameter_groups_have_their_own_rates(tmp_path: Path):
    schedule = TrainingConfig(steps=5, batch_size=16, learning_rate=1e-3)
    config = InverseDynamicsConfig(hidden=(16,), dropout=0.0, training=schedule)
    model = fit(TwoRates.for_data(config, DATA), DATA, seed=0, folder=tmp_path)
    assert model.dual.item() == pytest.approx(-5 * 10 * 1e-3, rel=1e-3)  # Adam moves by its rate at a constant gradient
    assert TwoRates.load(tmp_path).dual.item() == model.dual.item()


@pytest.mark.parametrize("case", CASES)
def test_saving_twice_gives_the_same_bytes(case: str, tmp_path: Path):
    build(case).save(tmp_path / "a")
    type(build(case)).load(tmp_path / "a").save(tmp_path / "b")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("damage", ["missing weights", "missing config", "other class", "other shape", "garbage"])
def test_unusable_folders_are_named(damage: str, tmp_path: Path):
    build("inverse").save(tmp_path)
    kind = InverseDynamics
    if damage == "missing weights":
        (tmp_path / "model.safetensors").unlink()
    elif damage == "missing config":
        (tmp_path / "config.json").unlink()
    elif damage == "other class":
        kind = Stitcher
    elif damage == "other shape":
        text = (tmp_path / "config.json").read_text()
        (tmp_path / "config.json").write_text(text.replace('"action": 2', '"action": 3'))
    else:
        (tmp_path / "model.safetensors").write_bytes(b"garbage")
    with pytest.raises(BadInput, match=str(tmp_path)) as caught:
        kind.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_ema_converges_geometrically():
    source, decay = nn.Linear(1, 1), 0.9
    ema = EMA(source, decay)
    start = ema.average.weight.item()
    nn.init.constant_(source.weight, 5.0)
    for step in range(1, 11):
        ema.update(source, step)
    assert ema.average.weight.item() == pytest.approx(5 + (start - 5) * decay**10, rel=1e-5)
    assert not any(parameter.requires_grad for parameter in ema.parameters())


def test_warm_up_forgets_the_start_quickly():
    source = nn.Linear(1, 1)
    cold, warm = EMA(source, 0.9999), EMA(source, 0.9999, warmup=True)
    nn.init.constant_(source.weight, 5.0)
    for step in range(1, 201):
        cold.update(source, step)
        warm.update(source, step)
    assert warm.average.weight.item() == pytest.approx(5.0, abs=1e-3)
    assert abs(cold.average.weight.item() - 5.0) > 0.1


def test_learning_rate_rises_then_falls_to_zero():
    config = replace(SHORT, steps=100, warmup=10, learning_rate=1.0)
    rates = [config.rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(1 / 11)
    assert max(rates) == pytest.approx(1, abs=0.05)
    assert rates[-1] < 1e-3
    assert replace(config, schedule="constant", warmup=0).rate(99) == 1.0


# ----------------------------------------------------------------------------------------------------- limits and logs


def test_training_stopped_by_its_callback_continues_to_the_same_bits(tmp_path: Path):
    straight = weights(fit(build("gciql"), DATA, seed=3))
    seen: list[tuple[int, dict[str, float]]] = []

    def on_step(step: int, metrics: dict[str, float]) -> bool:
        seen.append((step, metrics))
        return step < 5

    stopped = fit(build("gciql"), DATA, seed=3, folder=tmp_path, limits=Limits(on_step=on_step))
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5]
    assert all(np.isfinite(metrics["loss"]) for _, metrics in seen)
    assert stopped.stopped_at == 5
    assert not is_trained(tmp_path)
    loaded = type(stopped).load(tmp_path)
    assert_same(weights(loaded), weights(stopped))
    assert identity(loaded) == identity(stopped) != identity(build("gciql"))
    finished = fit(build("gciql"), DATA, seed=3, folder=tmp_path, limits=Limits(60, lambda step, metrics: None))
    assert finished.stopped_at is None
    assert is_trained(tmp_path)
    assert_same(weights(type(finished).load(tmp_path)), straight)
    assert "stopped_at" not in json.loads((tmp_path / "config.json").read_text())
    steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 9))


def test_a_stop_after_the_last_step_is_none(tmp_path: Path):
    model = fit(build("crl"), DATA, seed=3, folder=tmp_path, limits=Limits(on_step=lambda step, _: step < 8))
    assert model.stopped_at is None
    assert is_trained(tmp_path)


def test_time_ends_training_after_at_least_one_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = fit(build("gciql"), DATA, seed=3, folder=tmp_path, label="gciql", limits=Limits(minutes=1e-9))
    assert model.stopped_at == 1
    assert "gciql: stopped after 1 of 8 steps; the same call continues from there" in capsys.readouterr().err
    with pytest.raises(BadInput, match="minutes must be positive"):
        Limits(minutes=0)


def test_no_log_leaves_only_the_model(tmp_path: Path):
    with log_to("none"):
        unlogged = fit(build("gciql"), DATA, seed=3, folder=tmp_path / "none")
    assert {file.name for file in (tmp_path / "none").iterdir()} == {"config.json", "model.safetensors"}
    logged = fit(build("gciql"), DATA, seed=3, folder=tmp_path / "tensorboard")
    assert {"metrics.jsonl", "tensorboard"} <= {file.name for file in (tmp_path / "tensorboard").iterdir()}
    assert_same(weights(unlogged), weights(logged))


def test_a_missing_wandb_is_said_before_anything_is_trained(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(BadInput, match=r"cannot import 'wandb'.*pip install 'scots\[wandb\]'"), log_to("wandb"):
        pytest.fail("the block must not begin")


@pytest.mark.slow
def test_wandb_gets_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("wandb", reason="wandb, which `--log wandb` needs, is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with log_to("wandb"):
        fit(build("gciql"), DATA, seed=3, folder=tmp_path)
    [log] = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    assert b"loss" in log.read_bytes()
    assert not (tmp_path / "tensorboard").exists()
    assert (tmp_path / "metrics.jsonl").exists()


def test_fast_products_are_those_of_float32():
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(256, 96, generator=generator), torch.randn(96, 512, generator=generator)
    exact = left.double() @ right.double()
    with fast_products(torch.device("cpu")):
        error = (left @ right - exact).abs().max()
    assert error < 2e-5  # factors rounded to bfloat16 are off by 0.1


def test_fast_products_end_with_an_error_in_training():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyboardInterrupt), fast_products(torch.device("cpu")):
        raise KeyboardInterrupt
    assert torch.get_float32_matmul_precision() == before
