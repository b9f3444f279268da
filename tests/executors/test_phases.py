"""Where the time of an evaluation went, by what it announced."""

import pytest

from agent.executors.phases import PhaseClock


def test_phases_are_summed_by_name_and_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("agent.executors.phases.time.monotonic", lambda: now[0])
    heard: list[str] = []
    clock = PhaseClock(heard.append)
    said = (
        ("building", 0.5), ("preparing headers (1 of 3, once)", 2.0), ("building", 3.0),
        ("verifying, draw 1 of 13", 1.0), ("verifying, draw 2 of 13", 0.25),
        ("waiting for the GPU: 2 before this one", 0.25), ("looking elsewhere", 4.0),
    )  # fmt: skip
    for what, later in said:
        now[0] += later
        clock(what)
    now[0] += 1.0
    assert [(phase.name, phase.seconds) for phase in clock.phases()] == [
        ("starting", 0.5), ("building", 3.0), ("preparing headers", 3.0), ("verifying", 0.5),
        ("waiting for the GPU", 4.0), ("looking elsewhere", 1.0),
    ]  # fmt: skip
    assert heard == [what for what, _ in said]
