"""A run's attempts as a tree: who was made from whom, what changed, what it took."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import (
    SETTINGS,
    STARTED,
    Answers,
    Judge,
    attempt,
    candidate,
    completion,
    converse,
    evaluation,
    measured,
    prompt,
)

from agent.records import (
    Attempt,
    Completed,
    Completion,
    Evaluated,
    Event,
    Prompted,
    RunFinished,
    Status,
    Usage,
)
from agent.store import Log, create, history


def judged(number: int, source: str, parent: Attempt | None = None, origin: str = "model") -> Attempt:
    more = {"parent": parent.candidate.id} if parent else {}
    return Attempt(number=number, candidate=candidate(source, origin=origin, **more), evaluation=evaluation())


def answered(number: int, **fields: object) -> Completed:
    answer = completion(f"answer {number}").model_copy(update=fields)
    return Completed(round=number, prompt_id="p", completion=answer)


@pytest.fixture
def log() -> Log:
    """A first answer, its mend, the answer to the mend's findings; the third round held no code."""
    first = judged(1, "a\nb\nc\n")
    mend = judged(2, "a\nb\nB\nc\n", first, "mend")
    second = judged(3, "a\nx\n", mend)
    usage = Usage(input_tokens=100, output_tokens=20)
    events: tuple[Event, ...] = (
        STARTED,
        Prompted(round=1, prompt=prompt("one")),
        answered(1, usage=usage, cost_usd=0.5),
        Evaluated(round=1, attempt=first, seconds=2.0),
        Evaluated(round=1, attempt=mend, seconds=1.0),
        Prompted(round=2, prompt=prompt("two")),
        answered(2, usage=usage, cost_usd=0.25),
        Evaluated(round=2, attempt=second),
        Prompted(round=3, prompt=prompt("three")),
        answered(3),
    )
    return Log(events=events)


def test_attempts_know_parent_children_and_change(log: Log) -> None:
    first, mend, second = history.build_history(log).entries
    assert (first.parent, first.children, first.change) == (None, (2,), None)
    assert (mend.parent, mend.children, mend.change) == (1, (3,), history.Change(added=1, removed=0))
    assert (second.parent, second.children, second.change) == (2, (), history.Change(added=1, removed=3))
    assert [entry.round for entry in (first, mend, second)] == [1, 1, 2]
    assert first.cause == first.attempt.evaluation.findings[0]


def test_a_mend_was_asked_of_nobody(log: Log) -> None:
    first, mend, second = history.build_history(log).entries
    assert first.prompt == prompt("one")
    assert first.completion is not None
    assert first.completion.cost_usd == 0.5
    assert (mend.prompt, mend.completion) == (None, None)
    assert second.prompt == prompt("two")


def test_totals_take_in_every_round_and_say_when_they_are_partial(log: Log) -> None:
    totals = history.build_history(log).totals
    assert (totals.answers, totals.input_tokens, totals.output_tokens, totals.tokens) == (3, 200, 40, 240)
    assert totals.cost_usd == 0.75
    assert totals.partial
    assert totals.reasoning_tokens is None
    assert (totals.answer_seconds, totals.judging_seconds) == (4.5, 3.0)


def test_nothing_known_is_none_and_not_zero() -> None:
    totals = history.build_history(Log()).totals
    assert totals == history.Totals()
    assert totals.tokens is None
    assert history.build_history(Log()).entries == ()


def test_a_source_judged_twice_is_the_parent_by_its_latest_attempt() -> None:
    first, again = judged(1, "a"), judged(2, "a")
    after = judged(3, "b", again)
    log = Log(events=tuple(Evaluated(round=a.number, attempt=a) for a in (first, again, after)))
    assert [entry.parent for entry in history.build_history(log).entries] == [None, None, 2]


def test_a_parent_that_is_not_readable_is_none() -> None:
    orphan = judged(2, "b", judged(1, "a"))
    entry = history.build_history(Log(events=(Evaluated(round=1, attempt=orphan),))).entries[0]
    assert (entry.parent, entry.change) == (None, None)


def test_best_is_what_the_run_said_else_what_ranking_says() -> None:
    attempts = (attempt(1, evaluation(Status.VERIFIED)), attempt(2, measured()))
    events: tuple[Event, ...] = tuple(Evaluated(round=a.number, attempt=a) for a in attempts)
    assert history.build_history(Log(events=events)).best == 2
    ended = RunFinished(outcome="verified", best=1, reason="said so")
    assert history.build_history(Log(events=(*events, ended))).best == 1
    assert history.build_history(Log(events=events)).entries[1].speedup == 2.0


def test_times_are_those_on_disk(tmp_path: Path) -> None:
    run = create(tmp_path, SETTINGS)
    with run.writer() as writer:
        converse(Answers(), Judge(), writer)
    told = history.build_history(run.read())
    stored = [event.time for event in run.read().events]
    assert (told.began, told.last) == (stored[0], stored[-1])
    assert told.entries[0].judged == stored[3]
    assert told.entry(2) == told.entries[1]
    assert told.entry(9) is None


def test_a_diff_has_both_numberings_and_leaves_out_what_is_far() -> None:
    old = [f"line {number}" for number in range(1, 31)]
    new = [*old[:14], "changed", *old[15:]]
    lines = history.diff("\n".join(old), "\n".join(new), context=2)
    assert lines is not None
    assert [(line.kind, line.old, line.new) for line in lines] == [
        ("gap", None, None),
        ("same", 13, 13),
        ("same", 14, 14),
        ("removed", 15, None),
        ("added", None, 15),
        ("same", 16, 16),
        ("same", 17, 17),
    ]
    assert history.diff("a\n", "a\n") == ()


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60))
def test_a_diff_turns_the_old_source_into_the_new_one(old: str, new: str) -> None:
    lines = history.diff(old, new, context=1000)
    assert lines is not None
    change = history.change(old, new)
    assert change is not None
    assert change.added == sum(line.kind == "added" for line in lines)
    assert change.removed == sum(line.kind == "removed" for line in lines)
    if lines:
        assert [line.text for line in lines if line.new] == history.source_lines(new)
        assert [line.text for line in lines if line.old] == history.source_lines(old)
    else:
        assert history.source_lines(old) == history.source_lines(new)


def test_sources_that_are_too_long_are_not_compared() -> None:
    long = "x\n" * (history.COMPARED_LINES + 1)
    assert history.change(long, "y") is None
    assert history.diff("y", long) is None


def test_lines_are_counted_as_python_counts_them() -> None:
    assert history.source_lines("a\x0cb\u2028c\r\nd\re\n") == ["a\x0cb\u2028c", "d", "e"]


def test_an_answer_without_usage_has_no_tokens() -> None:
    answer = Completion(provider="p", model=None, text="")
    log = Log(events=(Completed(round=1, prompt_id="p", completion=answer),))
    assert history.totals(log) == history.Totals(answers=1, partial=True)
