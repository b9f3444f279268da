"""Every promise of every level, held against a program that tries to break it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox import probes_of_limits, probes_of_view
from sandbox.boxes import ORIGIN, PROBES, PROCESS, levels, server

from agent.sandbox import PROMISES, Box, Level


@pytest.fixture(params=["started", "handed out"])
def origin(request: pytest.FixtureRequest) -> Iterator[None]:
    """Processes that are started afresh, and those that a server forks."""
    token = ORIGIN.set(server() if request.param == "handed out" else None)
    yield
    ORIGIN.reset(token)


@pytest.mark.usefixtures("origin")
@pytest.mark.parametrize("name", PROMISES)
def test_a_promise_is_kept(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    for number, level in enumerate(levels(request)):
        if name not in level.promises:
            continue
        folder = tmp_path / f"level{number}" / "candidate"
        folder.mkdir(parents=True)
        PROBES[name](Box(folder, level=level), monkeypatch)
        assert tenants(folder) == []
    assert Path("/proc/self/mounts").read_text() == mounts


def tenants(folder: Path) -> list[int]:
    """Processes that run as the user the folder was given to; there is none unless it was given away."""
    owner = folder.stat().st_uid
    if owner == os.geteuid():
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += [int(entry.name)] if entry.stat().st_uid == owner else []
            except OSError:
                continue
    return found


def test_there_is_a_probe_for_every_promise() -> None:
    assert PROBES.keys() == PROMISES.keys()
    assert {function.__module__ for function in PROBES.values()} == {
        probes_of_limits.__name__,
        probes_of_view.__name__,
    }


def test_the_isolating_levels_promise_everything_and_a_process_says_what_it_lacks() -> None:
    for name in ("bubblewrap", "namespaces"):
        for user in ("own", "mapped"):
            assert Level(name, user).promises == PROMISES.keys()
    assert "files" not in PROCESS.promises
    assert "calls" not in PROCESS._replace(filtered=False).promises
    assert any("plain process" in gap for gap in PROCESS.gaps)
    assert any("not filtered" in gap for gap in PROCESS._replace(filtered=False).gaps)
