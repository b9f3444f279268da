"""What the emulator's verdict means for a candidate that a GPU has verified."""

import pytest
from verdicts import refused, verified

from agent.harness.confirmation import confirmation
from agent.records import Evaluation, Finding, Status


def judged(status: Status, kind: str) -> Evaluation:
    return refused(1, Finding(kind=kind, message="Something is wrong."), status=status).evaluation


@pytest.mark.parametrize("kind", confirmation.UNDEFINED)
def test_what_no_kernel_may_do_refuses(kind: str) -> None:
    look = confirmation.by_emulator(judged(Status.RUNTIME_ERROR, kind))
    assert look.status is Status.RUNTIME_ERROR
    assert look.findings[0].kind == kind


def test_what_only_goes_wrong_at_small_sizes_is_a_warning() -> None:
    look = confirmation.by_emulator(judged(Status.INCORRECT, "wrong-values"))
    assert look.status is None
    assert [finding.severity for finding in look.findings] == ["warning"]
    assert "At smaller sizes, on the emulator: Something is wrong." in look.findings[0].message
    assert len(look.skipped) == 1


def test_what_the_emulator_does_not_run_is_said_and_nothing_else() -> None:
    look = confirmation.by_emulator(judged(Status.UNSUPPORTED, "unsupported-construct"))
    assert (look.status, look.findings, len(look.skipped)) == (None, (), 1)
    assert confirmation.by_emulator(verified(1).evaluation) == (None, (), ())
