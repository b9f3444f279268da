"""Propose, verify, repair: the whole agent."""

import time

from agent import feedback, mend, parse, prompts, ranking
from agent.errors import EnvironmentFault, ReplyError
from agent.memory import Ledger
from agent.prompts import Requirement, Situation
from agent.protocols import Executor, Provider, Transcript
from agent.records import (
    Attempt,
    Candidate,
    Completed,
    Evaluated,
    Feedback,
    Origin,
    Problem,
    Prompted,
    Record,
    ReplyRejected,
    Status,
    Unjudged,
)

UNJUDGED_IN_A_ROW = 3
"""So many candidates that could not be judged, one after the other, end a run."""


class Plan(Record):
    """How long to go on, and what the prompts say beside the problem."""

    rounds: int
    patience: int
    """Rounds without a better kernel after which a verified and measured one is good enough."""
    mends: bool = True
    """Whether faults with one right mend are mended before the model is asked again."""
    requirements: tuple[Requirement, ...] = ()
    gpu: str
    floor_ms: float | None = None


def solve(
    problem: Problem, provider: Provider, executor: Executor, transcript: Transcript, plan: Plan
) -> Attempt | None:
    """The best verified attempt, or None. What a candidate does wrong never raises.

    A candidate that cannot be judged is nobody's mistake: the round is spent, and nothing is told of it.
    Raises EnvironmentFault when that happens to several in a row.
    """
    best: Attempt | None = None
    last: Attempt | None = None
    hint: Feedback | None = None
    mended: list[Attempt] = []
    ledger = Ledger()
    idle = 0
    judging = _Judging(problem, executor, transcript, plan.mends)
    for number in range(1, plan.rounds + 1):
        situation = Situation(
            last=last, best=best, feedback=hint, mended=tuple(mended), ledger=ledger,
            requirements=plan.requirements, gpu=plan.gpu, floor_ms=plan.floor_ms,
        )  # fmt: skip
        prompt = prompts.render(problem, situation)
        transcript.append(Prompted(round=number, prompt=prompt))
        completion = provider.complete(prompt)
        transcript.append(Completed(round=number, prompt_id=prompt.id, completion=completion))
        idle += 1
        try:
            parsed = parse.candidate(problem.name, completion, last.candidate.id if last else None)
            candidate = parsed.model_copy(update={"origin": _origin(provider)})
            ledger.refuse_repeat(candidate)
        except ReplyError as error:
            hint = feedback.on_reply(error)
            transcript.append(ReplyRejected(round=number, feedback=hint))
        else:
            line = judging.attempts(number, candidate, best)
            if not line:
                idle -= 1
                continue
            ledger = ledger.with_line(line, best if prompt.template == "optimise" else last)
            *mended, last = line
            hint = feedback.on_evaluation(last)
            previous, best = best, ranking.better(best, last)
            idle = 0 if best is not previous else idle
        if best is not None and _good_enough(best, idle, plan.patience):
            break
    return best


class _Judging:
    """Judges an answer and then, as long as it helps, its mends; each is an attempt of its own."""

    def __init__(self, problem: Problem, executor: Executor, transcript: Transcript, mends: bool) -> None:
        self._problem, self._executor, self._transcript = problem, executor, transcript
        self._mends = mends
        self._number = self._unjudged = 0

    def attempts(self, number: int, candidate: Candidate, best: Attempt | None) -> tuple[Attempt, ...]:
        """The attempt at the answer of a round first, then each mend of the one before it.

        Empty where the answer could not be judged.
        """
        first = self._attempt(number, candidate, best)
        if first is None or not self._mends:
            return (first,) if first else ()
        return mend.line(first, lambda child: self._attempt(number, child, best))

    def _attempt(self, number: int, candidate: Candidate, best: Attempt | None) -> Attempt | None:
        started = time.monotonic()
        try:
            evaluation = self._executor.evaluate(self._problem, candidate, best.evaluation if best else None)
        except EnvironmentFault as fault:
            # The last of several in a row has no event: whoever resumes the run judges it again.
            self._unjudged += 1
            if self._unjudged == UNJUDGED_IN_A_ROW:
                raise
            self._number += 1
            self._transcript.append(
                Unjudged(
                    round=number, number=self._number, candidate=candidate, reason=str(fault),
                    details=fault.details, seconds=_since(started),
                )
            )  # fmt: skip
            return None
        self._number += 1
        self._unjudged = 0
        attempt = Attempt(number=self._number, candidate=candidate, evaluation=evaluation)
        self._transcript.append(Evaluated(round=number, attempt=attempt, seconds=_since(started)))
        return attempt


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)


def _origin(provider: Provider) -> Origin:
    if provider.name.startswith("replay:"):
        return "replay"
    return "catalogue" if provider.name == "catalogue" else "model"


def _good_enough(best: Attempt, idle: int, patience: int) -> bool:
    """Without a time there is nothing to improve on; with one, patience decides."""
    assert best.evaluation.status is Status.VERIFIED
    return best.evaluation.measurement is None or idle >= patience
