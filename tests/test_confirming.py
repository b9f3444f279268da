"""Tests of second looks during the search: overlap, withdrawn verdicts, and the final best."""

import threading

import pytest
from second_looks import PROBLEM, RACE, Answers, Events, Held, TwoLooks, answer, first, marked, paced, time_of
from verdicts import verified

from agent.confirming import Beside, Standing
from agent.errors import EndpointError, EnvironmentFault
from agent.loop import Terms, solve
from agent.protocols import Look
from agent.records import (
    Attempt,
    Candidate,
    Completion,
    ConfirmPolicy,
    Evaluation,
    Event,
    Problem,
    Prompt,
    SecondLook,
    Status,
    Unconfirmed,
)
from agent.store import Log, Resume

LONG_S = 60.0
"""Seconds after which a waiting thread counts as hung."""


def terms(rounds: int, patience: int = 9) -> Terms:
    return Terms(rounds=rounds, patience=patience, gpu="H200")


def searched(
    executor: TwoLooks, *times: float, ends_in: tuple[int, ...] = (), patience: int = 9
) -> tuple[Attempt | None, Events, Answers]:
    """Run a search. Second looks end while questions in `ends_in` are answered, else when waited for."""
    confirmer, events = Held(executor), Events()

    def while_writing(number: int) -> None:
        confirmer.ended = number in ends_in

    provider = Answers(*times, while_writing=while_writing)
    best = solve(PROBLEM, provider, executor, events, terms(len(times), patience), paced(confirmer))
    return best, events, provider


def test_the_next_question_is_asked_while_the_best_is_looked_at_again() -> None:
    asked_meanwhile = threading.Event()
    looked_meanwhile = threading.Event()

    class Waiting(TwoLooks):
        def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
            looked_meanwhile.set()
            assert asked_meanwhile.wait(LONG_S), "the search waited for the second look"
            return super().confirm(problem, candidate, evaluation)

    def while_writing(number: int) -> None:
        if number == 2:
            assert looked_meanwhile.wait(LONG_S)
            asked_meanwhile.set()

    executor, events = Waiting(), Events()
    provider = Answers(2.0, 4.0, while_writing=while_writing)
    best = solve(PROBLEM, provider, executor, events, terms(2))
    assert best is not None
    assert (best.number, best.evaluation.scope.confirmed) == (1, True)
    assert executor.looked == [2.0]


def test_a_run_ends_with_its_best_confirmed() -> None:
    best, events, _ = searched(TwoLooks(), 2.0)
    assert best is not None
    assert best.evaluation.scope.confirmed is True
    assert events.kinds() == ["evaluated", "second_look"]
    look = events[-1]
    assert isinstance(look, SecondLook)
    assert (look.round, look.number, look.seconds, look.evaluation) == (1, 1, 40.0, best.evaluation)


def test_what_is_refused_meanwhile_is_withdrawn_and_told_to_the_model() -> None:
    executor = TwoLooks(refuses=(1.0,))
    best, events, provider = searched(executor, 4.0, 1.0, 5.0, 2.0, ends_in=(2, 3))
    assert best is not None
    assert (best.number, time_of(best.candidate)) == (4, 2.0)
    assert events.kinds() == [
        "evaluated", "second_look", "evaluated", "second_look", "evaluated", "evaluated", "second_look",
    ]  # fmt: skip
    assert executor.looked == [4.0, 1.0, 2.0]
    fourth = provider.asked[3]
    assert fourth.template == "optimise"
    shown = fourth.messages[1].content
    assert "ms = 4.0" in shown, "the best before it is the best again"
    assert f"[{RACE.kind}] {RACE.message}" in shown
    assert "verified at first, then refused by a second look" in shown


def test_a_refusal_of_the_last_answer_is_its_feedback() -> None:
    executor, provider = TwoLooks(refuses=(1.0,)), Answers(1.0, 3.0)
    best = solve(PROBLEM, provider, executor, Events(), terms(2), paced(Held(executor, at_once=True)))
    assert best is not None
    assert best.number == 2
    second = provider.asked[1]
    assert second.template == "repair"
    assert "The first look had verified it; a second one, by other means, refuses it." in (
        second.messages[1].content
    )
    assert RACE.message in second.messages[1].content


def test_a_search_that_was_good_enough_goes_on_where_its_best_is_refused() -> None:
    best, events, provider = searched(TwoLooks(refuses=(2.0,)), 2.0, 8.0, 4.0, 5.0, 5.5, patience=1)
    assert best is not None
    assert (best.number, best.evaluation.scope.confirmed) == (3, True)
    assert [prompt.template for prompt in provider.asked] == ["generate", "optimise", "optimise", "optimise"]
    assert events.kinds() == [
        "evaluated", "evaluated", "second_look", "second_look", "evaluated", "evaluated", "second_look",
    ]  # fmt: skip


def test_a_run_whose_only_kernel_is_refused_has_none() -> None:
    best, events, _ = searched(TwoLooks(refuses=(2.0,)), 2.0)
    assert best is None
    look = events[-1]
    assert isinstance(look, SecondLook)
    assert look.evaluation.withdrawn
    assert look.evaluation.status is Status.RUNTIME_ERROR


def test_one_look_at_a_time_and_none_at_what_was_superseded_before_it_began() -> None:
    executor = TwoLooks()
    best, _, _ = searched(executor, 8.0, 4.0, 2.0, 9.0)
    assert best is not None
    assert best.number == 3
    assert executor.looked == [8.0, 2.0]


def test_what_was_superseded_is_looked_at_when_the_search_falls_back_on_it() -> None:
    executor = TwoLooks(refuses=(2.0,))
    best, _, _ = searched(executor, 8.0, 4.0, 2.0)
    assert best is not None
    assert (best.number, best.evaluation.scope.confirmed) == (2, True)
    assert executor.looked == [8.0, 2.0, 4.0]


def test_the_times_of_the_second_look_decide() -> None:
    """Let the second look measure a slower time, so that the first answer is the best."""

    class Slower(TwoLooks):
        def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
            found = super().confirm(problem, candidate, evaluation)
            return marked(first(9.0), confirmed=True) if time_of(candidate) == 2.0 else found

    best, _, _ = searched(Slower(), 4.0, 2.0)
    assert best is not None
    assert best.number == 1


def test_what_a_fast_build_holds_up_is_looked_at_though_it_is_not_the_best() -> None:
    class HeldUp(TwoLooks):
        def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
            found = super().evaluate(problem, candidate)
            assert found.measurement is not None
            assert found.build is not None
            ms = time_of(candidate)
            return found.model_copy(
                update={
                    "measurement": found.measurement.model_copy(update={"host_bound": ms == 3.0}),
                    "build": found.build.model_copy(
                        update={"backend": "gpu-slim" if ms < 4.0 else "load_inline"}
                    ),
                }
            )

        def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
            found = super().confirm(problem, candidate, evaluation)
            return marked(first(1.0), confirmed=True) if time_of(candidate) == 3.0 else found

    executor = HeldUp()
    best, _, _ = searched(executor, 2.0, 3.0, 4.0)
    assert best is not None
    assert executor.looked == [2.0, 3.0]
    assert best.number == 2


def test_a_fault_of_ours_leaves_the_best_unconfirmed_and_is_tried_once_more() -> None:
    executor = TwoLooks(breaks={2.0: 1})
    best, events, provider = searched(executor, 2.0, 4.0, ends_in=(2,))
    assert best is not None
    assert (best.number, best.evaluation.scope.confirmed) == (1, True)
    assert events.kinds() == ["evaluated", "unconfirmed", "evaluated", "second_look"]
    (fault,) = [event for event in events if isinstance(event, Unconfirmed)]
    assert (fault.number, fault.reason, fault.details) == (1, "the GPU is gone", "Traceback of the judge")
    assert executor.looked == [2.0, 2.0]
    assert "the GPU is gone" not in "".join(m.content for p in provider.asked for m in p.messages)


def test_a_best_that_cannot_be_confirmed_ends_the_run_with_our_fault() -> None:
    events = Events()
    executor = TwoLooks(breaks={2.0: 2})
    with pytest.raises(EnvironmentFault, match="the GPU is gone"):
        solve(PROBLEM, Answers(2.0), executor, events, terms(1), paced(Held(executor)))
    assert events.kinds() == ["evaluated", "unconfirmed"], "who resumes the run looks again"


def test_an_endpoint_that_fails_leaves_a_confirmed_best() -> None:
    class Failing(Answers):
        def complete(self, prompt: Prompt) -> Completion:
            if self.asked:
                raise EndpointError("the endpoint is gone")
            return super().complete(prompt)

    executor, events = TwoLooks(), Events()
    with pytest.raises(EndpointError):
        solve(PROBLEM, Failing(2.0), executor, events, terms(2), paced(Held(executor)))
    assert events.kinds() == ["evaluated", "second_look"]


def test_without_second_looks_nothing_is_begun() -> None:
    class Never:
        def begin(self, attempt: Attempt) -> None:
            raise AssertionError("no second look is due")

        def ready(self) -> bool:
            raise AssertionError("no second look was begun")

        def outcome(self) -> Look:
            raise AssertionError("no second look was begun")

    standing = Standing(Events(), Never())
    standing.add(1, (verified(1, executor="emulator"),))
    assert standing.best is not None
    assert standing.take_up() == []
    assert standing.settle() == []


def test_whatever_a_thread_raises_is_raised_where_its_outcome_is_asked_for() -> None:
    class Broken(TwoLooks):
        def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
            raise KeyError("a bug")

    with pytest.raises(KeyError, match="a bug"):
        solve(PROBLEM, Answers(2.0), Broken(), Events(), terms(1))


def test_a_second_look_has_to_decide() -> None:
    class Undecided(TwoLooks):
        def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
            return evaluation

    beside = Beside(PROBLEM, Undecided())
    candidate = Candidate(problem="p", source=answer(2.0))
    beside.begin(Attempt(number=1, candidate=candidate, evaluation=first(2.0)))
    found = beside.outcome().found
    assert isinstance(found, EnvironmentFault)
    assert "neither confirmed nor refused" in str(found)


def chosen(
    executor: TwoLooks, policy: ConfirmPolicy, *times: float, patience: int = 9
) -> tuple[Attempt | None, Events, Answers]:
    """Run a search whose second looks, if any, end as soon as they begin."""
    events, provider = Events(), Answers(*times)
    wanted = terms(len(times), patience).model_copy(update={"confirm": policy})
    best = solve(PROBLEM, provider, executor, events, wanted, paced(Held(executor, at_once=True)))
    return best, events, provider


def test_only_the_final_best_is_looked_at_when_second_looks_are_left_to_the_end() -> None:
    executor = TwoLooks()
    best, events, _ = chosen(executor, "end", 8.0, 4.0, 2.0, 9.0)
    assert best is not None
    assert (best.number, best.evaluation.scope.confirmed) == (3, True)
    assert executor.looked == [2.0]
    assert events.kinds() == ["evaluated"] * 4 + ["second_look"]


def test_the_search_goes_on_where_the_final_best_is_refused() -> None:
    executor = TwoLooks(refuses=(2.0,))
    best, _, provider = chosen(executor, "end", 8.0, 2.0, 9.0, 4.0, 5.0, patience=1)
    assert best is not None
    assert (best.number, best.evaluation.scope.confirmed) == (4, True)
    assert executor.looked == [2.0, 8.0, 4.0], "what is fallen back on is confirmed first"
    assert RACE.message in provider.asked[3].messages[1].content


def test_a_look_at_the_end_is_tried_once_more_after_a_fault_of_ours() -> None:
    executor = TwoLooks(breaks={2.0: 1})
    best, events, _ = chosen(executor, "end", 2.0)
    assert best is not None
    assert best.evaluation.scope.confirmed is True
    assert events.kinds() == ["evaluated", "unconfirmed", "second_look"]
    with pytest.raises(EnvironmentFault, match="the GPU is gone"):
        chosen(TwoLooks(breaks={2.0: 2}), "end", 2.0)


def test_a_run_without_second_looks_ends_with_its_best_unconfirmed() -> None:
    executor = TwoLooks(refuses=(2.0,))
    best, events, _ = chosen(executor, "none", 4.0, 2.0)
    assert best is not None
    assert (best.number, best.evaluation.scope.confirmed) == (2, False)
    assert "not confirmed by a second look" in str(best.evaluation.scope)
    assert executor.looked == []
    assert events.kinds() == ["evaluated", "evaluated"]


@pytest.mark.parametrize("policy", ["end", "none"])
def test_such_a_run_stopped_anywhere_goes_on_as_it_would_have(policy: ConfirmPolicy) -> None:
    times = (4.0, 2.0, 3.0)

    def searched(before: list[Event], executor: TwoLooks) -> Events:
        written, resume = Events(), Resume(Log(tuple(before)))
        provider = resume.provider(Answers(*times, known=len(resume.answers)))
        wanted = terms(len(times)).model_copy(update={"confirm": policy})
        confirmer = resume.confirmer(Held(executor, at_once=True))
        transcript, judge = resume.transcript(written), resume.executor(executor)
        solve(PROBLEM, provider, judge, transcript, wanted, paced(confirmer, resume))
        return written

    whole = searched([], TwoLooks(refuses=(2.0,), breaks={4.0: 1}))
    assert "second_look" in whole.kinds() or policy == "none"
    for known in range(len(whole) + 1):
        broken = any(isinstance(event, Unconfirmed) for event in whole[:known])
        written = searched(whole[:known], TwoLooks(refuses=(2.0,), breaks={} if broken else {4.0: 1}))
        assert [event.kind for event in (*whole[:known], *written)] == [event.kind for event in whole]
