"""Second looks in the transcript: a run that was stopped at any event goes on as it would have."""

from collections.abc import Callable

import pytest
from second_looks import PROBLEM, REFUSAL, Answers, Events, Held, TwoLooks, first, marked, paced
from verdicts import verified

from agent.errors import EnvironmentFault
from agent.loop import Terms, solve
from agent.records import (
    Attempt,
    Candidate,
    Evaluated,
    Event,
    Prompted,
    RunFinished,
    SecondLook,
    Unconfirmed,
    Unjudged,
)
from agent.store import Log, Resume, history
from agent.store.lines import decode, encode

TIMES = (4.0, 1.0, 5.0, 2.0)
PLAN = Terms(rounds=len(TIMES), patience=9, gpu="H200")


def executor() -> TwoLooks:
    """The second answer is refused; the look at the first one breaks once, so that it is made again."""
    return TwoLooks(refuses=(1.0,), breaks={4.0: 1})


def searched(events: tuple[Event, ...], judge: TwoLooks) -> tuple[Attempt | None, Events]:
    """A search that goes on from `events`; what it writes besides.

    Second looks end while the second and the third question are answered.
    """
    log, confirmer, written = Log(events), Held(judge), Events()

    def while_writing(number: int) -> None:
        confirmer.ended = number in (2, 3)

    resume = Resume(log)
    provider = Answers(*TIMES, while_writing=while_writing, known=len(log.answers))
    best = solve(
        PROBLEM, resume.provider(provider), resume.executor(judge), resume.transcript(written), PLAN,
        paced(resume.confirmer(confirmer), resume),
    )  # fmt: skip
    return best, written


def timeless(events: tuple[Event, ...]) -> list[Event]:
    return [e.model_copy(update={"seconds": None}) if isinstance(e, Evaluated) else e for e in events]


WHOLE = tuple(searched((), executor())[1])


def test_the_run_that_is_stopped_has_everything() -> None:
    kinds = [event.kind for event in WHOLE if not isinstance(event, Prompted) and event.kind != "completed"]
    assert kinds == [
        "evaluated", "unconfirmed", "evaluated", "second_look", "evaluated", "evaluated", "second_look",
    ]  # fmt: skip


@pytest.mark.parametrize("known", range(len(WHOLE) + 1))
def test_a_run_stopped_anywhere_goes_on_as_it_would_have(known: int) -> None:
    judge = executor()
    before = WHOLE[:known]
    told = [event for event in before if isinstance(event, SecondLook | Unconfirmed)]
    judge.breaks = {} if told else judge.breaks
    best, written = searched(before, judge)
    assert timeless((*before, *written)) == timeless(WHOLE)
    missing = [event for event in WHOLE[known:] if isinstance(event, SecondLook | Unconfirmed)]
    assert len(judge.looked) == len(missing), "what was looked at twice is not looked at again"
    assert best is not None
    assert best.evaluation.scope.confirmed is True


def test_a_best_that_could_not_be_confirmed_is_looked_at_when_the_run_is_resumed() -> None:
    judge, events = TwoLooks(breaks={4.0: 2}), Events()
    plan = PLAN.model_copy(update={"rounds": 1})
    with pytest.raises(EnvironmentFault):
        solve(PROBLEM, Answers(4.0), judge, events, plan, paced(Held(judge)))
    ended = RunFinished(outcome="failed", best=1, reason="the GPU is gone")
    resume, written = Resume(Log((*events, ended))), Events()
    best = solve(
        PROBLEM, resume.provider(Answers(known=1)), resume.executor(judge), resume.transcript(written), plan,
        paced(resume.confirmer(Held(judge)), resume),
    )  # fmt: skip
    assert best is not None
    assert best.evaluation.scope.confirmed is True
    assert written.kinds() == ["second_look"]


ATTEMPT = Attempt(number=1, candidate=Candidate(problem="p", source="x"), evaluation=first(4.0))
JUDGED = Evaluated(round=1, attempt=ATTEMPT, seconds=3.0)
CONFIRMED = marked(verified(1, 3.0).evaluation, confirmed=True)
WITHDRAWN = marked(REFUSAL, confirmed=False)


@pytest.mark.parametrize(
    "event",
    [SecondLook(round=1, number=1, evaluation=WITHDRAWN, seconds=40.0),
     Unconfirmed(round=1, number=1, reason="gone", details="Traceback")],
)  # fmt: skip
def test_the_events_read_as_they_were_written(event: Event) -> None:
    none: Callable[[str], str] = str
    assert decode(encode(event, none), none) == event


def test_the_verdict_of_the_second_look_stands() -> None:
    look = SecondLook(round=1, number=1, evaluation=CONFIRMED, seconds=40.0)
    log = Log((JUDGED, Prompted(round=2, prompt=WHOLE[0].prompt), look))  # type: ignore[union-attr]
    assert [attempt.evaluation for attempt in log.attempts] == [CONFIRMED]
    assert [entry.second_looks for entry in log.rounds] == [(look,), ()]
    told = history.build_history(log)
    (entry,) = told.entries
    assert (entry.attempt.evaluation, entry.first, entry.second_look_seconds) == (
        CONFIRMED, ATTEMPT.evaluation, 40.0,
    )  # fmt: skip
    assert told.best == 1
    assert told.totals.judging_seconds == 43.0


def test_what_is_withdrawn_is_no_best() -> None:
    log = Log((JUDGED, SecondLook(round=1, number=1, evaluation=WITHDRAWN)))
    assert history.build_history(log).best is None


def test_the_first_verdict_stands_while_nothing_confirms_it() -> None:
    log = Log((JUDGED, Unconfirmed(round=1, number=1, reason="gone")))
    assert log.attempts == (ATTEMPT,)
    assert history.build_history(log).best == 1


def test_what_was_not_judged_has_no_second_look() -> None:
    unjudged = Unjudged(round=1, number=1, candidate=ATTEMPT.candidate, reason="gone")
    assert Resume(Log((unjudged,))).looks == {}
