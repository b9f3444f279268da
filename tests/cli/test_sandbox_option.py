"""Tests of `--sandbox`: a plain process causes a warning, or an error before anything runs."""

import pytest

from agent import config, sandbox
from agent.api.judge import require_isolation
from agent.api.listening import Listener
from agent.errors import EnvironmentFault, UsageError
from agent.sandbox import Level


def asked(monkeypatch: pytest.MonkeyPatch, level: Level, wanted: str | None = None) -> str:
    """Return the warnings that a judge gives before it prepares anything."""
    warned: list[str] = []
    monkeypatch.setattr(sandbox, "strongest", lambda gpu=False: level)
    told = Listener()
    monkeypatch.setattr(told, "warn", warned.append)
    require_isolation(config.load({"sandbox": wanted}).settings, told)
    return " ".join(warned)


def test_a_plain_process_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    said = asked(monkeypatch, Level("process"))
    assert said.startswith("NOT ISOLATED: candidates run as plain processes of your user")
    assert "install bubblewrap, or allow user namespaces" in said


def test_a_required_sandbox_that_is_missing_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentFault, match="--sandbox require: .*cannot be isolated here; install bubb"):
        asked(monkeypatch, Level("process"), "require")


@pytest.mark.parametrize("level", [Level("namespaces", "own"), Level("bubblewrap", "mapped")])
def test_an_isolating_level_needs_no_word(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, level, "require") == ""


def test_another_value_is_refused() -> None:
    with pytest.raises(UsageError, match="--sandbox: .*'auto' or 'require'"):
        config.load({"sandbox": "never"})
