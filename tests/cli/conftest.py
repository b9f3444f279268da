"""The commands are tested away from the settings, the cache and the runs of whoever runs the tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory and home, and none of the variables that change what a command does."""
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
