"""Propose, verify, repair: the whole agent."""

import time
from dataclasses import dataclass, field

from agent import feedback, mend, parse, prompts
from agent.confirming import Beside, Standing
from agent.errors import EndpointError, EnvironmentFault, ReplyError
from agent.memory import Ledger
from agent.prompts import Requirement, Situation
from agent.protocols import Confirmer, Executor, Provider, Transcript
from agent.records import (
    Attempt,
    Candidate,
    Completed,
    Completion,
    Evaluated,
    Feedback,
    LibraryOps,
    Origin,
    Problem,
    Prompt,
    Prompted,
    Record,
    ReplyRejected,
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
    library_ops: LibraryOps = "gemm-conv"


def solve(
    problem: Problem, provider: Provider, executor: Executor, transcript: Transcript, plan: Plan,
    confirmer: Confirmer | None = None,
) -> Attempt | None:  # fmt: skip
    """The best verified attempt, or None. What a candidate does wrong never raises.

    Where second looks are due, `confirmer` makes them beside the search; None: in threads of their own. What
    they refuse is withdrawn, and the search goes on from the best before it; what is returned is confirmed.
    A candidate that cannot be judged is nobody's mistake: the round is spent, and nothing is told of it.
    Raises EnvironmentFault when that happens to several in a row, or when the best cannot be confirmed.
    """
    standing = Standing(transcript, confirmer or Beside(problem, executor))
    judging = _Judging(problem, executor, transcript, plan.mends)
    search = _Search(problem, provider, transcript, plan, judging, standing)
    for number in range(1, plan.rounds + 1):
        search.ask(number)
        if search.is_good_enough():
            search.withdraw(standing.settle())
            if search.is_good_enough():
                break
    search.withdraw(standing.settle())
    return standing.best


@dataclass
class _Search:
    """What a run carries from round to round."""

    problem: Problem
    provider: Provider
    transcript: Transcript
    plan: Plan
    judging: "_Judging"
    standing: Standing
    last: Attempt | None = None
    hint: Feedback | None = None
    mended: tuple[Attempt, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    idle: int = 0
    """Rounds since there was a better kernel, or since one was withdrawn."""

    def ask(self, number: int) -> None:
        """One round: a prompt, its answer, and the verdict on what the answer holds."""
        self.withdraw(self.standing.take_up())
        prompt = self._prompt()
        # A second look that ends meanwhile does not change which code the model was shown.
        shown = self.standing.best if prompt.template == "optimise" else self.last
        self.transcript.append(Prompted(round=number, prompt=prompt))
        try:
            completion = self.provider.complete(prompt)
        except EndpointError:
            self.withdraw(self.standing.settle())  # the run ends here, and keeps its best
            raise
        self.withdraw(self.standing.take_up())
        self.transcript.append(Completed(round=number, prompt_id=prompt.id, completion=completion))
        self.idle += 1
        try:
            candidate = self._candidate(completion)
        except ReplyError as error:
            self.hint = feedback.on_reply(error)
            self.transcript.append(ReplyRejected(round=number, feedback=self.hint))
        else:
            self._judge(number, candidate, shown)

    def withdraw(self, withdrawn: list[Attempt]) -> None:
        """Takes back what second looks have refused: the model is told as of any other refusal."""
        for attempt in withdrawn:
            self.ledger = self.ledger.with_verdict(attempt)
            self.idle = 0
            if self.last is not None and self.last.number == attempt.number:
                self.last = attempt
                self.hint = feedback.on_evaluation(attempt)

    def is_good_enough(self) -> bool:
        """Without a time there is nothing to improve on; with one, patience decides."""
        best = self.standing.best
        return best is not None and (best.evaluation.measurement is None or self.idle >= self.plan.patience)

    def _prompt(self) -> Prompt:
        situation = Situation(
            last=self.last, best=self.standing.best, feedback=self.hint, mended=self.mended,
            ledger=self.ledger, requirements=self.plan.requirements, gpu=self.plan.gpu,
            floor_ms=self.plan.floor_ms, library_ops=self.plan.library_ops,
        )  # fmt: skip
        return prompts.render(self.problem, situation)

    def _candidate(self, completion: Completion) -> Candidate:
        """Raises ReplyError for an answer that holds none, or one that was judged before."""
        parsed = parse.candidate(self.problem.name, completion, self.last.candidate.id if self.last else None)
        candidate = parsed.model_copy(update={"origin": _origin(self.provider)})
        self.ledger.refuse_repeat(candidate)
        return candidate

    def _judge(self, number: int, candidate: Candidate, shown: Attempt | None) -> None:
        line = self.judging.attempts(number, candidate)
        if not line:
            self.idle -= 1
            return
        self.ledger = self.ledger.with_line(line, shown)
        *mended, self.last = line
        self.mended = tuple(mended)
        self.hint = feedback.on_evaluation(self.last)
        previous = self.standing.best
        self.standing.add(number, line)
        if self.standing.best is not previous:
            self.idle = 0


class _Judging:
    """Judges an answer and then, as long as it helps, its mends; each is an attempt of its own."""

    def __init__(self, problem: Problem, executor: Executor, transcript: Transcript, mends: bool) -> None:
        self._problem, self._executor, self._transcript = problem, executor, transcript
        self._mends = mends
        self._number = self._unjudged = 0

    def attempts(self, number: int, candidate: Candidate) -> tuple[Attempt, ...]:
        """The attempt at the answer of a round first, then each mend of the one before it.

        Empty where the answer could not be judged.
        """
        first = self._attempt(number, candidate)
        if first is None or not self._mends:
            return (first,) if first else ()
        return mend.line(first, lambda child: self._attempt(number, child))

    def _attempt(self, number: int, candidate: Candidate) -> Attempt | None:
        started = time.monotonic()
        try:
            evaluation = self._executor.evaluate(self._problem, candidate)
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
