"""Check the machine and the installation: what is installed, what is missing, and which command to run next."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scots import __version__
from scots.core import files
from scots.core.console import amount
from scots.core.resources import available_memory, cores, free_disk
from scots.datasets.loading import list_datasets
from scots.envs.rendering import choose_gl_backend, is_headless

Status = Literal["ok", "missing", "warning"]

_STYLES: dict[Status, str] = {"ok": "green", "missing": "red", "warning": "yellow"}
_FIRST_COMMAND = "scots data collect pointmaze-medium-stitch-v0 --episodes 500 --out part.npz"
_DEVELOPMENT_EXTRA = "dev"
_OTHER_PACKAGES = ("accelerate", "diffusers", "faiss-cpu")  # versions that explain differences between machines
_EGL_REMEDY = "install the EGL library (on Debian and Ubuntu: apt install libegl1)"
_LOW_MEMORY = 4e9  # bytes; the largest dataset of the paper alone takes 1.3e9
_LOW_DISK = 5e9  # bytes; enough for that dataset, its augmentation and a few models


@dataclass(frozen=True)
class Check:
    """The result of one check, and the remedy if it is not ok."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


def examine() -> list[Check]:
    """Run all checks. This is quick and imports no simulator."""
    return [
        Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        Check("scots", "ok", __version__),
        *_packages(),
        *_compute(),
        _memory(),
        _disk(),
        _rendering(),
        _datasets(),
        _ogbench_cache(),
    ]


def next_command() -> str:
    """The command to run next."""
    usable = (row.id for row in list_datasets() if row.episodes is not None and row.origin not in ("", "built in"))
    found = next(usable, None)
    return f"scots data inspect {found}" if found else _FIRST_COMMAND


def report(checks: Sequence[Check]) -> RenderableType:
    """The checks as a table for the terminal."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for check in checks:
        detail = Text(check.detail)
        if check.remedy:
            detail.append(f"\n-> {check.remedy}", style="bold")
        table.add_row(Text(check.status, style=_STYLES[check.status]), Text(check.name), detail)
    return table


# ---------------------------------------------------------------------------------------------------------- packages


def _packages() -> list[Check]:
    """One check for the required packages and one per extra, from the installed metadata."""
    declared = _declared_packages()
    checks = [_package_check(extra, names) for extra, names in declared.items() if extra != _DEVELOPMENT_EXTRA]
    others = set(_OTHER_PACKAGES) - {name for names in declared.values() for name in names}
    if installed := _versions(sorted(others)):
        checks.append(Check("other packages", "ok", _join(installed)))
    return checks


def _declared_packages() -> dict[str, list[str]]:
    """Package names by extra; required packages are under the empty name."""
    declared: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("scots") or []:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        extra = re.search(r"extra == [\"'](.+?)[\"']", requirement)
        if name != "scots":  # an extra that includes another extra requires `scots` itself
            declared.setdefault(extra[1] if extra else "", []).append(name)
    return declared


def _package_check(extra: str, names: Sequence[str]) -> Check:
    label = f"extra {extra}" if extra else "packages"
    installed = _versions(names)
    missing = [name for name in names if name not in installed]
    if not missing:
        return Check(label, "ok", _join(installed))
    remedy = f"pip install 'scots[{extra}]'" if extra else "pip install scots"
    return Check(label, "missing", f"not installed: {', '.join(missing)}", remedy)


def _versions(names: Sequence[str]) -> dict[str, str]:
    """Versions of the installed packages among these, without importing them."""
    versions = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _join(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


# ----------------------------------------------------------------------------------------------------------- machine


def _compute() -> list[Check]:
    """Check torch and its devices. If torch fails to load (a driver mismatch, say), the report says so."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return [Check("torch", "missing", f"fails to load: {error}", "pip install --force-reinstall torch")]
    threads = torch.get_num_threads()
    detail = f"{cores()} cores, torch uses {threads} threads"
    if threads > cores():
        processor = Check("processor", "warning", detail, f"export OMP_NUM_THREADS={cores()}")
    else:
        processor = Check("processor", "ok", detail)
    if torch.cuda.is_available():
        device = f"cuda: {', '.join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))}"
    elif torch.backends.mps.is_available():
        device = "mps: Apple GPU"
    else:
        device = "cpu: no GPU that torch can use"
    return [Check("device", "ok", device), processor]


def _memory() -> Check:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = available_memory()
    detail = amount(total, "bytes")
    if available is not None:
        detail += f", {amount(available, 'bytes')} available"
    if (total if available is None else available) < _LOW_MEMORY:
        return Check("memory", "warning", detail, "close other programs, or use fewer episodes")
    return Check("memory", "ok", detail)


def _disk() -> Check:
    home = files.home()
    free = free_disk(home)
    detail = f"{amount(free, 'bytes')} free at {home}"
    if free < _LOW_DISK:
        return Check("disk", "warning", detail, "free some disk space, or choose a larger disk with SCOTS_HOME")
    return Check("disk", "ok", detail)


def _rendering() -> Check:
    backend = choose_gl_backend()
    if is_headless() and backend == "glfw":
        return Check("rendering", "warning", "no display and no EGL: simulators run but cannot render", _EGL_REMEDY)
    return Check("rendering", "ok", f"MuJoCo renders with {backend}")


# -------------------------------------------------------------------------------------------------------------- data


def _dataset_files() -> list[Path]:
    """Training files in the data folder, sorted by name."""
    return sorted(path for path in (files.home() / "data").glob("*.npz") if not path.stem.endswith("-val"))


def _datasets() -> Check:
    folder = files.home() / "data"
    size = sum(path.stat().st_size for path in folder.glob("*.npz"))
    return Check("datasets", "ok", f"{len(_dataset_files())} in {folder}, {amount(size, 'bytes')}")


def _ogbench_cache() -> Check:
    folder = Path("~/.ogbench/data").expanduser()
    return Check("ogbench cache", "ok", f"{folder} {'exists' if folder.exists() else 'does not exist'}")
