"""Tests of the ledger: changes, their effects, equal faults, and the advice derived from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdicts import refused, verified

from agent.diagnosis import signature
from agent.errors import ReplyError
from agent.memory import Ledger
from agent.records import Attempt, Candidate, Finding, Status

KERNEL = "\n".join([f"float a{n} = {n};" for n in range(20)])
EPS = Finding(kind="eps-twice", message="Equals the reference with eps twice, error 3e-7, line 41.")
ELSEWHERE = Finding(kind="eps-twice", message="Equals the reference with eps twice, error 1.5e-6, line 7.")
AXIS = Finding(kind="wrong-axis", message="The maximum is taken over axis 2.")


def made(*attempts: Attempt) -> Ledger:
    """Return the ledger of a run in which each attempt derives from the previous one."""
    ledger, before = Ledger(), None
    for attempt in attempts:
        ledger, before = ledger.with_attempt(attempt, before), attempt
    return ledger


def at(stage: str, attempt: Attempt) -> Attempt:
    evaluation = attempt.evaluation.model_copy(update={"stage": stage})
    return attempt.model_copy(update={"evaluation": evaluation})


def changed(line: str, number: int = 3) -> str:
    return KERNEL.replace(f"float a{number} = {number};", line)


def test_a_first_attempt_changed_nothing() -> None:
    (entry,) = made(refused(1, EPS, source=KERNEL)).entries
    assert entry.changed == ""
    assert str(entry) == f"attempt 1: fell at verify: [eps-twice] {EPS.message}"


def test_an_entry_says_what_changed_and_that_it_did_nothing() -> None:
    entry = made(refused(1, EPS, source=KERNEL), refused(2, ELSEWHERE, source=changed("b = 1;"))).entries[-1]
    assert entry.changed == "against attempt 1 (+1 -1 lines): `float a3 = 3;` became `b = 1;`"
    assert entry.effect == "the same finding again"


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (refused(1, EPS), refused(2, AXIS), "another finding at verify"),
        (at("build", refused(1, EPS)), refused(2, AXIS), "got further, to verify"),
        (refused(1, EPS), at("build", refused(2, AXIS)), "fell earlier, at build"),
        (verified(1), refused(2, AXIS), "broke what was verified, at verify"),
        (refused(1, EPS), verified(2), "verified"),
    ],
)
def test_the_effect_is_that_on_the_verdict(before: Attempt, after: Attempt, effect: str) -> None:
    assert made(before, after).entries[-1].effect == effect


def test_a_change_that_was_tried_before_is_recognised_wherever_it_stands() -> None:
    ledger = made(
        refused(1, EPS, source=KERNEL),
        refused(2, EPS, source=changed("b = 1;")),
        refused(3, AXIS, source=KERNEL),
        refused(4, EPS, source=changed("    b = 1;")),
    )
    assert ledger.entries[-1].effect == "the change of attempt 2 once more; another finding at verify"


def test_a_new_source_is_counted_and_not_listed() -> None:
    source = KERNEL.replace("float", "double")
    entry = made(refused(1, EPS, source=KERNEL), refused(2, EPS, source=source)).entries[-1]
    assert entry.changed == "written anew after attempt 1 (20 of 20 lines are new)"


def test_a_mend_is_told_by_its_note() -> None:
    mend = refused(2, AXIS, source=changed("b = 1;"))
    candidate = mend.candidate.model_copy(update={"origin": "mend", "note": "declared `f` in cpp_sources"})
    entry = made(refused(1, EPS, source=KERNEL), mend.model_copy(update={"candidate": candidate})).entries[-1]
    assert entry.changed == "mended mechanically: declared 'f' in cpp_sources"


def test_numbers_do_not_tell_faults_apart_and_words_do() -> None:
    assert signature.compute_signature(EPS) == signature.compute_signature(ELSEWHERE)
    other = EPS.model_copy(update={"message": "Equals the reference with eps outside the root."})
    assert signature.compute_signature(EPS) != signature.compute_signature(other)
    assert signature.compute_signature(EPS) != signature.compute_signature(AXIS)


def test_a_fault_that_comes_back_escalates_step_by_step() -> None:
    attempts = [refused(number, EPS, source=changed(f"b = {number};")) for number in range(1, 6)]
    steps = [made(*attempts[:count]).escalation for count in range(6)]
    assert steps == ["none", "none", "more-context", "another-approach", "back-to-best", "back-to-best"]


def test_another_fault_or_a_verified_attempt_ends_the_escalation() -> None:
    twice = (refused(1, EPS), refused(2, EPS))
    assert made(*twice, refused(3, AXIS)).escalation == "none"
    assert made(*twice, verified(3)).escalation == "none"
    assert made(*twice, refused(3, AXIS), refused(4, EPS)).seen == 3


def test_code_that_was_judged_is_refused_whatever_its_white_space() -> None:
    ledger = made(refused(1, EPS, source="x = 1\ny = 2\n"))
    ledger.refuse_repeat(Candidate(problem="p", source="x = 1\ny = 3\n"))
    with pytest.raises(ReplyError, match=r"the code of attempt 1 again, .*incorrect \(eps-twice\)") as raised:
        ledger.refuse_repeat(Candidate(problem="p", source="x = 1\n\n    y = 2"))
    assert raised.value.kind == "repeated-answer"


def test_what_may_end_otherwise_is_judged_again() -> None:
    slow = refused(1, Finding(kind="timeout", message="It took too long."), status=Status.TIMEOUT, source="x")
    made(slow).refuse_repeat(Candidate(problem="p", source="x"))


@given(st.lists(st.text(max_size=300), min_size=2, max_size=4), st.text(max_size=400))
def test_an_entry_is_one_short_line_whatever_the_sources_say(sources: list[str], message: str) -> None:
    found = Finding(kind="compile-error", message=message)
    ledger = made(*(refused(number, found, source=source) for number, source in enumerate(sources, 1)))
    for entry in ledger.entries:
        assert str(entry).isprintable()
        assert len(str(entry)) < 800
