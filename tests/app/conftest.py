"""The run that all tests of the page look at."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from app_run import Run, make_run, serving

from scots.app.session import Session


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    root = tmp_path_factory.mktemp("app")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOTS_HOME", str(root / "home"))
        yield make_run(root)


@pytest.fixture(autouse=True)
def _home(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCOTS_HOME", str(run.home))


@pytest.fixture(scope="session")
def session(run: Run) -> Session:
    """Everything that a page can show."""
    return run.open(run.planner)


@pytest.fixture(scope="session")
def address(session: Session) -> Iterator[tuple[str, int]]:
    with serving(session) as found:
        yield found
