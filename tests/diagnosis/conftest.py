"""What all tests of the diagnosis share."""

import pytest

from agent.diagnosis.mismatch import causes


@pytest.fixture(autouse=True)
def _time_for_every_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is named must not depend on how busy this machine is."""
    monkeypatch.setattr(causes, "BUDGET_S", 600.0)
