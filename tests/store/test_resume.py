"""Resuming: what is stored answers first, and a run of another version is refused."""

from collections.abc import Sequence

import pytest
from transcripts import STARTED, Answers, Judge, Memory, converse

from agent.errors import EnvironmentFault, UsageError
from agent.records import Evaluated, Event, RetryScheduled, RunFinished, Unjudged
from agent.store import Damage, Log, Resume


def recorded(wording: str = "round") -> Sequence[Event]:
    memory = Memory()
    converse(Answers(), Judge(), memory, wording)
    return memory.events


def resumed(log: Log, wording: str = "round") -> tuple[Answers, Judge, Memory]:
    resume, provider, executor, memory = Resume(log), Answers(), Judge(), Memory()
    transcript = resume.transcript(memory)
    converse(resume.provider(provider), resume.executor(executor), transcript, wording)
    return provider, executor, memory


@pytest.mark.parametrize("known", range(14))
def test_only_what_is_missing_is_asked_judged_and_written(known: int) -> None:
    events = recorded()
    provider, executor, memory = resumed(Log(tuple(events[:known])))
    missing = events[known:]
    assert memory.events == (missing or events[-1:])
    assert len(provider.asked) == sum(event.kind == "completed" for event in missing)
    assert len(executor.judged) == sum(event.kind == "evaluated" for event in missing)


def test_what_could_not_be_judged_is_not_judged_again_either() -> None:
    events = list(recorded()[:4])
    judged = events[3]
    assert isinstance(judged, Evaluated)
    candidate = judged.attempt.candidate
    fault = Unjudged(round=1, number=1, candidate=candidate, reason="no memory", details="Traceback")
    executor = Judge()
    resume = Resume(Log((*events[:3], fault)))
    with pytest.raises(EnvironmentFault, match="no memory") as raised:
        resume.executor(executor).evaluate(STARTED.problem, candidate)
    assert raised.value.details == "Traceback"
    assert executor.judged == []


def test_retries_and_ends_on_disk_are_no_part_of_the_sequence() -> None:
    events = list(recorded())[:5]
    events.insert(2, RetryScheduled(reason="429", wait_seconds=1.0, tries=1))
    events.append(RunFinished(outcome="interrupted", best=None, reason="interrupted"))
    provider, _, memory = resumed(Log(tuple(events)))
    assert len(provider.asked) == 3
    assert memory.events == recorded()[5:]


def test_names_are_those_of_what_is_wrapped() -> None:
    resume = Resume(Log())
    assert resume.provider(Answers()).name == "scripted"
    assert resume.executor(Judge()).name == "emulator"


def test_another_wording_of_the_prompts_is_refused_before_anything_is_asked() -> None:
    resume, provider, memory = Resume(Log(tuple(recorded()[:5]))), Answers(), Memory()
    with pytest.raises(UsageError, match="another version.*prompted in round 1"):
        converse(resume.provider(provider), resume.executor(Judge()), resume.transcript(memory), "turn")
    assert provider.asked == []
    assert memory.events == []


def test_another_candidate_out_of_the_same_answer_is_refused() -> None:
    events = list(recorded()[:4])
    other = recorded("turn")[3]
    with pytest.raises(UsageError, match="event 0 is evaluated in round 1"):
        resumed(Log((*events[:3], other)))


def test_another_problem_is_refused() -> None:
    changed = STARTED.problem.model_copy(update={"source": "class Model: pass"})
    resume = Resume(Log(tuple(recorded())))
    with pytest.raises(UsageError, match="source has changed"):
        resume.transcript(Memory()).append(STARTED.model_copy(update={"problem": changed}))


def test_a_damaged_log_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="line 3: not JSON"):
        Resume(Log(tuple(recorded()), (Damage(3, "not JSON"),)))
