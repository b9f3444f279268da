"""The browser of the tests: one for all of them, since starting it takes seconds."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from viewer.browser import INSTALL, Browser, programs
from viewer.runs import measured_run

from agent.store import Run


@pytest.fixture(scope="session")
def _window() -> Iterator[Browser]:
    found = programs()
    if found is None:
        # Where a machine is made for the tests, a missing browser is a mistake and no circumstance.
        if os.environ.get("CI") == "true":
            pytest.fail(INSTALL)
        pytest.skip(INSTALL)
    window = Browser(*found)
    yield window
    window.close()


@pytest.fixture
def browser(_window: Browser) -> Browser:
    _window.look()
    _window.open("about:blank")
    _window.complaints()
    _window.asked_for()
    return _window


@pytest.fixture
def measured(tmp_path: Path) -> Run:
    return measured_run(tmp_path / "runs")
