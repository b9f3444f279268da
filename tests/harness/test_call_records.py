"""What the record of one call cannot tell alone, a second call on the same parameters does."""

from typing import Any, cast

import pytest

from agent.emulator.replay import calls
from agent.harness.integrity import replay_evidence
from agent.harness.integrity.call_records import CallRecords, Drawn
from agent.harness.integrity.replay_check import Evidence, Recorded
from agent.harness.integrity.replay_evidence import Outcome
from agent.harness.task import faults
from agent.harness.task.protocol import Draw
from agent.records import Finding, Status

FOREIGN = Finding(kind="own-kernels-do-not-compute-the-result", message="nothing to compare")


class OneCall(CallRecords):
    """A single call, whose output is the same for all inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []
        self.called(1)

    def called(self, seed: int) -> None:
        self._drawn.append(Drawn(1, seed, Draw(), None))
        self._segments.append(calls.Segment([], []))
        self._behaviours.append(calls.behaviour(self._segments[-1]))

    def once_more(self, seed: int) -> None:
        self.made.append(seed)
        self.called(seed)

    def once_more_and_wrong(self, seed: int) -> None:
        raise faults.Refused(Status.INCORRECT, "verify", [FOREIGN])


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> Evidence:
    def looked(recorded: Recorded, evidence: Evidence) -> Outcome:
        return Outcome([] if recorded.others else [FOREIGN], blind=True)

    monkeypatch.setattr(replay_evidence, "on_fresh_inputs", looked)
    return cast(Evidence, cast(Any, None))


def test_the_only_call_on_its_parameters_is_held_against_one_made_now(evidence: Evidence) -> None:
    records = OneCall()

    assert records.findings(evidence, records.once_more) == []
    assert len(records.made) == 1


def test_where_that_one_is_wrong_the_refusal_stands(evidence: Evidence) -> None:
    records = OneCall()

    assert records.findings(evidence, records.once_more_and_wrong) == [FOREIGN]
