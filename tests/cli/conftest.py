"""Fixtures that isolate the commands from the user's settings, cache and runs."""

import os
from pathlib import Path

import pytest
from transcripts import (
    SETTINGS,
    STARTED,
    Answers,
    Judge,
    attempt,
    completion,
    converse,
    evaluation,
    measured,
    prompt,
)

from agent.records import Completed, Evaluated, Prompted, RetryScheduled, Status
from agent.store import Run, create, write_best

RUNS = Path("runs")
"""Folder of the runs, inside the empty directory of each test."""


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty directory and home, without variables that affect commands."""
    for name in os.environ:
        if name.startswith(("AGENT_", "OPENAI_", "KERNELBENCH_")) or name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)


@pytest.fixture
def finished() -> Run:
    run = create(RUNS, SETTINGS)
    with run.writer() as writer:
        converse(Answers(), Judge(), writer)
    write_best(run, run.read().attempts[-1], STARTED.problem)
    return run


@pytest.fixture
def killed() -> Run:
    """Return a run killed in its second round. An attempt of the first round has a mend that was timed."""
    run = create(RUNS, SETTINGS.model_copy(update={"provider": "openai_compat", "model": "m-[red]1"}))
    first = attempt(1, evaluation(Status.BUILD_ERROR))
    with run.writer() as writer:
        writer.append(STARTED)
        writer.append(
            Prompted(round=1, prompt=prompt("[bold]a[/bold] \x1b[31mred\x1b[0m\n" + "long line " * 30))
        )
        writer.append(RetryScheduled(reason="429 slow down", wait_seconds=2.0, tries=1))
        writer.append(
            Completed(round=1, prompt_id="p", completion=completion("[/nope] \ud800", "thinking " * 9))
        )
        writer.append(Evaluated(round=1, attempt=first, seconds=65.0))
        mended = attempt(2, measured(), origin="mend", parent=first.candidate.id)
        writer.append(Evaluated(round=1, attempt=mended, seconds=1.0))
        writer.append(Prompted(round=2, prompt=prompt("b")))
    return run
