"""The agent's main loop: propose, verify, repair.

A policy chooses the next prompt from the tree of rounds so far. This module asks, judges and applies fixes,
for several rounds at a time if the pace allows. Events are written in the order of arrival. The tree is built
from the written events, so the same events in the same order give the same search.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from agent import feedback, mend, parse, prompts
from agent.confirming import Beside, Standing
from agent.errors import (
    AgentError,
    AwaitingAnswers,
    AwaitingGpu,
    BudgetExceeded,
    EndpointError,
    EnvironmentFault,
    PassingFault,
    Rebuilt,
    ReplyError,
    Unprepared,
)
from agent.memory import Ledger
from agent.prompts import Requirement, Situation
from agent.protocols import Executor, Look, Pacing, Provider, Transcript
from agent.records import (
    Attempt,
    Candidate,
    Completed,
    Completion,
    ConfirmPolicy,
    Evaluated,
    Evaluation,
    Event,
    LibraryOps,
    Move,
    Origin,
    PolicyName,
    Problem,
    Prompt,
    Prompted,
    Record,
    ReplyRejected,
    Unjudged,
)
from agent.search.budget import Budget, Limits
from agent.search.policies import POLICIES
from agent.search.shape import Shape
from agent.search.tree import Tree
from agent.search.workers import Workers

UNJUDGED_IN_A_ROW = 3
"""Abort after this many consecutive candidates that an infrastructure fault kept from being judged."""


class Terms(Record):
    """Limits and options of the search, and the context for its prompts."""

    rounds: int
    patience: int
    """Number of rounds without a better kernel after which a verified and timed one is good enough."""
    search: PolicyName = "line"
    samples: int = 4
    width: int = 2
    good_enough: float | None = None
    plan: bool = False
    """Ask for the approaches that lines start with before the first kernel."""
    parallel: int = 1
    """Maximum number of rounds open at the same time."""
    mends: bool = True
    """Apply a fix before the model is asked again where a fault has exactly one."""
    confirm: ConfirmPolicy = "best"
    requirements: tuple[Requirement, ...] = ()
    gpu: str
    floor_ms: float | None = None
    library_ops: LibraryOps = "gemm-conv"

    @property
    def shape(self) -> Shape:
        return Shape(
            samples=self.samples, width=self.width, patience=self.patience, good_enough=self.good_enough,
            plan=self.plan,
        )  # fmt: skip


def solve(
    problem: Problem, provider: Provider, executor: Executor, transcript: Transcript, terms: Terms,
    pacing: Pacing | None = None,
) -> Attempt | None:  # fmt: skip
    """Return the best verified attempt, or None. A candidate's faults never raise.

    Second looks run in parallel with the search or at its end, as `terms.confirm` says. An attempt that a
    second look refuses is withdrawn, and the search continues from the best remaining one. The returned
    attempt is confirmed if a second look is due, unless `terms.confirm` is `none`.

    A candidate that an infrastructure fault kept from being judged is judged once more if the fault may be
    temporary. Otherwise the round does not count, and the same prompt is sent again without a mention of the
    fault. A round that already has a verdict counts.

    Raises EndpointError or BudgetExceeded if a prompt could not be sent, once the open rounds have ended.
    Raises EnvironmentFault if several candidates in a row could not be judged or the best cannot be
    confirmed. Raises Unprepared or ProblemError if the executor cannot judge the problem at all.
    """
    pacing = pacing or Pacing(Beside(problem, executor), Budget(Limits(), parallel=terms.parallel))
    return _Search(problem, provider, executor, transcript, terms, pacing).run()


class _Awaited(NamedTuple):
    """An answer or verdict that this process does not wait for."""

    error: AwaitingAnswers | AwaitingGpu
    what: Prompt | Candidate


class _Search:
    """A search in progress. As a transcript it writes each event and adds it to the tree."""

    def __init__(
        self, problem: Problem, provider: Provider, executor: Executor, transcript: Transcript, terms: Terms,
        pacing: Pacing,
    ) -> None:  # fmt: skip
        self.problem, self.provider, self.executor, self.terms = problem, provider, executor, terms
        self.transcript, self.pace = transcript, pacing.pace
        self.tree = Tree()
        self.standing = Standing(self, pacing.confirmer, terms.confirm)
        self.workers = Workers(terms.parallel)
        self.asked: dict[int, Prompt] = {}
        """Prompts without an answer, by round."""
        self.judged: dict[int, Candidate] = {}
        """Candidates without a verdict, by round."""
        self.number = self.unjudged = 0
        self.repeated: set[tuple[int, str]] = set()
        """Pairs of round and candidate id that were judged a second time."""
        self.stopped: AgentError | None = None
        """Error after which nothing new is started."""
        self.awaited: dict[int, _Awaited] = {}
        """Open rounds whose answer or verdict this process does not wait for."""

    def append(self, event: Event) -> Event:
        stored = self.transcript.append(event) or event
        self.tree = self.tree.take(stored)
        return stored

    def run(self) -> Attempt | None:
        while True:
            self.standing.take_up()
            self._ask()
            if self.asked or self.judged:
                self._take(*self.workers.next(self.pace.turn()))
                continue
            if not isinstance(self.stopped, EnvironmentFault):
                self.standing.settle()
            if self.stopped:
                raise self.stopped
            if self._ask():
                continue
            if self.awaited:
                raise self._missing()
            return self.standing.best

    def _missing(self) -> AwaitingAnswers | AwaitingGpu:
        """Return one error that names every answer and verdict that is missing."""
        errors = [one.error for one in self.awaited.values()]
        return type(errors[0])("; ".join(dict.fromkeys(map(str, errors))))

    def _is_open(self, identity: str) -> bool:
        """Return True if this prompt or candidate is in progress or awaited."""
        awaited = (one.what for one in self.awaited.values())
        return any(one.id == identity for one in (*self.asked.values(), *self.judged.values(), *awaited))

    def _ask(self) -> bool:
        """Send the prompts that the policy wants while the pace allows. Returns True if any was sent."""
        before = self.tree.asked
        while not self.stopped and (move := self._wanted()) is not None:
            number, prompt = self.tree.asked + 1, self._prompt(move)
            if self._is_open(prompt.id) or not self.pace.begins(prompt, len(self.tree.open)):
                break
            self.append(Prompted(round=number, prompt=prompt, move=move))
            self.asked[number] = prompt
            self.workers.begin(number, partial(self.provider.complete, prompt))
        return self.tree.asked > before

    def _wanted(self) -> Move | None:
        rounds_left = len(self.tree.nodes) < self.terms.rounds
        return POLICIES[self.terms.search](self.tree, self.terms.shape) if rounds_left else None

    def _prompt(self, move: Move) -> Prompt:
        tree, terms = self.tree, self.terms
        node = tree.nodes[move.after] if move.after is not None else None
        situation = Situation(
            last=tree.last_on(move.after), best=tree.best_on(move.after),
            feedback=node.feedback if node else None,
            mended=tuple(tree.attempts[one] for one in node.mended) if node else (),
            ledger=node.ledger if node else Ledger(), idea=move.idea, other=tree.best_on(move.beside),
            ideas=max(terms.samples - 1, 1) if move.plan else 0,
            requirements=terms.requirements, gpu=terms.gpu, floor_ms=terms.floor_ms,
            library_ops=terms.library_ops,
        )  # fmt: skip
        return prompts.render(self.problem, situation)

    def _take(self, number: int, outcome: Callable[[], object]) -> None:
        """Process the outcome of a round: an answer or a verdict."""
        if prompt := self.asked.pop(number, None):
            self._answered(number, prompt, outcome)
        else:
            self._looked(number, self.judged.pop(number), outcome)
        goes_on = any(number in rounds for rounds in (self.asked, self.judged, self.awaited))
        if number in self.tree.nodes and not goes_on:
            self.tree = self.tree.closed(number)
            line = tuple(self.tree.attempts[one] for one in self.tree.nodes[number].attempts)
            self.standing.add(number, line)

    def _answered(self, number: int, prompt: Prompt, outcome: Callable[[], object]) -> None:
        try:
            completion = outcome()
        except AwaitingAnswers as error:
            self.awaited[number] = _Awaited(error, prompt)
            return
        except (EndpointError, BudgetExceeded) as error:
            self.stopped = self.stopped or error
            return
        assert isinstance(completion, Completion)
        self.standing.take_up()
        self.append(Completed(round=number, prompt_id=prompt.id, completion=completion))
        if self.tree.nodes[number].move.plan:
            return
        try:
            candidate = self._candidate(number, completion)
        except ReplyError as error:
            self.append(ReplyRejected(round=number, feedback=feedback.on_reply(error)))
        else:
            self._judge(number, candidate)

    def _candidate(self, number: int, completion: Completion) -> Candidate:
        """Return the candidate in an answer. Raises ReplyError if there is none or it was judged before."""
        move, last = self.tree.nodes[number].move, self.tree.last_on(number)
        parsed = parse.candidate(self.problem.name, completion, last.candidate.id if last else None)
        other = self.tree.best_on(move.beside)
        second = other.candidate.id if other else None
        candidate = parsed.model_copy(
            update={"origin": _origin(self.provider, completion), "second_parent": second}
        )
        self.tree.known.refuse_repeat(candidate)
        if self._is_open(candidate.id):
            raise ReplyError("repeated-answer", "This code is being judged already; write another kernel.")
        return candidate

    def _judge(self, number: int, candidate: Candidate) -> None:
        if not isinstance(self.stopped, EnvironmentFault):
            self.judged[number] = candidate
            self.workers.begin(number, partial(_verdict, self.executor, self.problem, candidate))

    def _looked(self, number: int, candidate: Candidate, outcome: Callable[[], object]) -> None:
        """Record a verdict or its absence, then judge the fix that follows from it as a new attempt."""
        try:
            look = outcome()
        except AwaitingGpu as error:
            self.awaited[number] = _Awaited(error, candidate)
            return
        except Rebuilt as same:
            told = feedback.on_reply(self.tree.built_before(same.program))
            self.append(
                ReplyRejected(round=number, feedback=told, candidate=candidate.id, program=same.program)
            )
            return
        assert isinstance(look, Look)
        if isinstance(look.found, EnvironmentFault):
            self._unjudged(number, candidate, look.found, look.seconds)
            return
        self.number += 1
        self.unjudged = 0
        attempt = Attempt(number=self.number, candidate=candidate, evaluation=look.found)
        self.append(Evaluated(round=number, attempt=attempt, seconds=look.seconds))
        made = [self.tree.attempts[one] for one in self.tree.nodes[number].attempts]
        child = mend.following(made) if self.terms.mends else None
        if child:
            self._judge(number, child)

    def _unjudged(
        self, number: int, candidate: Candidate, fault: EnvironmentFault, seconds: float | None
    ) -> None:
        # The last consecutive fault has no event, so that a resumed run judges the candidate again.
        self.unjudged += 1
        if self.unjudged == UNJUDGED_IN_A_ROW:
            self.stopped = fault
            return
        self.number += 1
        repeats = isinstance(fault, PassingFault) and (number, candidate.id) not in self.repeated
        answered = "spent" if self.tree.nodes[number].attempts else "unspent"
        event = self.append(
            Unjudged.model_validate(
                {
                    "round": number, "number": self.number, "candidate": candidate, "reason": str(fault),
                    "details": fault.details, "seconds": seconds, "then": "again" if repeats else answered,
                }
            )
        )  # fmt: skip
        # A stored event decides what follows, even if an earlier version wrote it.
        if isinstance(event, Unjudged) and event.then == "again":
            self.repeated.add((number, candidate.id))
            self._judge(number, candidate)


def _verdict(executor: Executor, problem: Problem, candidate: Candidate) -> Look:
    started = time.monotonic()
    found: Evaluation | EnvironmentFault
    try:
        found = executor.evaluate(problem, candidate)
    except Unprepared:
        raise
    except EnvironmentFault as fault:
        found = fault
    return Look(found, round(time.monotonic() - started, 3))


def _origin(provider: Provider, completion: Completion) -> Origin:
    match provider.name.partition(":")[0], completion.provider:
        case ("replay" | "file") as kind, _:
            return kind
        case _, ("catalogue" | "compose") as name:
            return name
    return "model"
