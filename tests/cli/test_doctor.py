"""The checks of `scots doctor`, and the choice of a rendering backend."""

from __future__ import annotations

import importlib.metadata
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from scots import doctor
from scots.data import formats
from scots.datasets import toy
from scots.doctor import Check, examine, next_command, report
from scots.envs import rendering


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, "")  # set, not deleted, so that pytest restores what the code sets


def check_named(name: str) -> Check:
    return next(check for check in examine() if check.name == name)


def without(package: str) -> Callable[[str], str]:
    installed = importlib.metadata.version

    def version(name: str) -> str:
        if name == package:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    return version


def add_dataset(home: Path, name: str, size: int = 1000) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data" / f"{name}.npz").write_bytes(bytes(size))
    (home / "data" / f"{name}-val.npz").write_bytes(bytes(size))


def test_every_failed_check_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", without("pyarrow"))
    checks = examine()
    assert len({check.name for check in checks}) == len(checks)
    assert all(check.remedy for check in checks if check.status != "ok")
    assert {"python", "scots", "packages", "device", "processor", "memory", "disk", "rendering", "datasets"} <= {
        check.name for check in checks
    }


@pytest.mark.slow
def test_checks_import_no_simulator() -> None:
    program = "import sys; from scots.doctor import examine; examine(); sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_required_packages_show_their_versions() -> None:
    assert f"numpy {importlib.metadata.version('numpy')}" in check_named("packages").detail


@pytest.mark.parametrize(
    ("package", "extra"),
    [("mujoco", "ogbench"), ("minari", "minari"), ("pyarrow", "parquet"), ("stable-baselines3", "experts")],
)
def test_missing_extra_names_its_install_command(monkeypatch: pytest.MonkeyPatch, package: str, extra: str) -> None:
    monkeypatch.setattr(importlib.metadata, "version", without(package))
    check = check_named(f"extra {extra}")
    assert (check.status, check.remedy) == ("missing", f"pip install 'scots[{extra}]'")
    assert package in check.detail


def test_missing_required_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", without("h5py"))
    assert check_named("packages") == Check("packages", "missing", "not installed: h5py", "pip install scots")


def test_torch_that_fails_to_load_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert check_named("torch").status == "missing"


def test_too_many_threads_give_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch, "get_num_threads", lambda: 10_000)
    check = check_named("processor")
    assert check.status == "warning"
    assert check.remedy.startswith("export OMP_NUM_THREADS=")


def test_low_memory_and_disk_give_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_LOW_MEMORY", 1e18)
    monkeypatch.setattr(doctor, "_LOW_DISK", 1e18)
    assert check_named("memory").status == check_named("disk").status == "warning"


def test_datasets_are_counted_and_decide_the_next_command(tmp_path: Path) -> None:
    assert check_named("datasets").detail.startswith("0 in ")
    assert next_command() == "scots data collect pointmaze-medium-stitch-v0 --episodes 500 --out part.npz"
    add_dataset(tmp_path / "home", "pointmaze-giant-stitch-v0")
    add_dataset(tmp_path / "home", "antmaze-large-explore-v0")
    assert check_named("datasets").detail == f"2 in {tmp_path / 'home' / 'data'}, 4.0 kB"
    assert next_command().startswith("scots data collect")  # neither can be read
    formats.write(toy.make(2), tmp_path / "home" / "data" / "mine.npz")
    assert next_command() == "scots data inspect mine"


def test_ogbench_cache_is_reported(tmp_path: Path) -> None:
    assert check_named("ogbench cache").detail.endswith("does not exist")
    (tmp_path / ".ogbench" / "data").mkdir(parents=True)
    assert check_named("ogbench cache").detail.endswith("exists")


def test_report_shows_details_and_remedies() -> None:
    output = io.StringIO()
    checks = [
        Check("python", "ok", "3.12"),
        Check("extra minari", "missing", "not here", "pip install 'scots[minari]'"),
    ]
    Console(file=output, width=100, color_system=None).print(report(checks))
    assert [line.split() for line in output.getvalue().splitlines()] == [
        ["ok", "python", "3.12"],
        ["missing", "extra", "minari", "not", "here"],
        ["->", "pip", "install", "'scots[minari]'"],
    ]


# --------------------------------------------------------------------------------------------------------- rendering


@pytest.fixture
def linux_with_egl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(rendering, "_egl_loads", lambda: True)


@pytest.mark.usefixtures("linux_with_egl")
def test_egl_is_chosen_without_a_display() -> None:
    assert rendering.choose_gl_backend() == os.environ["MUJOCO_GL"] == "egl"


@pytest.mark.usefixtures("linux_with_egl")
@pytest.mark.parametrize("display", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_display_is_used_if_there_is_one(monkeypatch: pytest.MonkeyPatch, display: str) -> None:
    monkeypatch.setenv(display, ":0")
    assert rendering.choose_gl_backend() == "glfw"
    assert not os.environ["MUJOCO_GL"]


@pytest.mark.usefixtures("linux_with_egl")
def test_choice_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert rendering.choose_gl_backend() == os.environ["MUJOCO_GL"] == "osmesa"


@pytest.mark.usefixtures("linux_with_egl")
def test_without_egl_nothing_is_set_and_doctor_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_egl_loads", lambda: False)
    check = check_named("rendering")
    assert check.status == "warning"
    assert "libegl1" in check.remedy
    assert not os.environ["MUJOCO_GL"]


def test_macos_uses_cgl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert rendering.choose_gl_backend() == "cgl"
    assert not os.environ["MUJOCO_GL"]


def test_mujoco_imports_with_the_chosen_backend() -> None:
    program = "from scots.envs.rendering import choose_gl_backend; choose_gl_backend(); import mujoco"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
