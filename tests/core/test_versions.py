"""Which code made a result: the commit of a checkout, marked where files differ from it."""

import subprocess
import sys
from pathlib import Path

import pytest

import scots
from scots.core.versions import now, package_versions

PACKAGE = Path(scots.__file__).parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package of the same name in a repository of its own."""
    package = tmp_path / "repo" / "scots"
    (package / "core").mkdir(parents=True)
    for name in ("core/versions.py", "core/__init__.py"):
        (package / name).write_text((PACKAGE / name).read_text())
    (package / "__init__.py").write_text('__version__ = "9.9"\n')
    return tmp_path / "repo"


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def version_in(checkout: Path) -> str:
    program = "from scots.core.versions import code_version; print(code_version())"
    done = subprocess.run([sys.executable, "-c", program], cwd=checkout, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_checkout_is_named_by_its_commit_and_by_changes_anywhere_in_the_package(checkout: Path):
    git(checkout, "init")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-m", "first")
    commit = git(checkout, "rev-parse", "--short=12", "HEAD").strip()
    assert version_in(checkout) == commit
    (checkout / "scots" / "__init__.py").write_text('__version__ = "9.9"  # changed\n')
    assert version_in(checkout) == f"{commit}+changes"


def test_without_a_repository_it_is_the_released_version(checkout: Path):
    assert version_in(checkout) == "9.9"


def test_an_installation_inside_another_project_is_not_named_by_that_project(checkout: Path):
    git(checkout, "init")
    (checkout / "other.txt").write_text("tracked")
    git(checkout, "add", "other.txt")
    git(checkout, "commit", "-m", "first")
    assert version_in(checkout) == "9.9"


def test_versions_of_packages_and_the_date():
    assert list(package_versions("numpy")) == ["scots", "numpy"]
    assert now().endswith("+00:00")
