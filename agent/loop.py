"""Propose, verify, repair: the whole agent.

A policy says what is asked next, looking at nothing but the tree of rounds so far. This module asks, judges
and mends, several rounds at a time where the pace allows, and writes down what comes in, in the order in
which it comes. The tree is made from what was written: the same events in the same order are the same search.
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
"""Abort after this many consecutive judgements that failed by a fault of ours."""


class Terms(Record):
    """How the search goes about it, how long, and what the prompts say beside the problem."""

    rounds: int
    patience: int
    """Rounds without a better kernel after which a verified and measured one is good enough."""
    search: PolicyName = "line"
    samples: int = 4
    width: int = 2
    good_enough: float | None = None
    plan: bool = False
    """Whether the approaches that lines begin with are asked for before any kernel."""
    parallel: int = 1
    """Rounds that may be open at the same time."""
    mends: bool = True
    """Whether faults with one right mend are mended before the model is asked again."""
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
    """The best verified attempt, or None. What a candidate does wrong never raises.

    Where second looks are due, they are made beside the search or, by `terms.confirm`, at its end; what they
    refuse is withdrawn, and the search goes on from the best before it. What is returned is confirmed, unless
    `terms.confirm` is `none`. A candidate that cannot be judged is
    nobody's mistake: where the fault may have passed it is judged once more, else its round is not spent, the
    same question is asked again, and nothing is told of it.
    Raises EndpointError or BudgetExceeded when a question could not be asked, after what else was asked has
    come in; EnvironmentFault when several in a row could not be judged, or when the best cannot be confirmed;
    Unprepared and ProblemError when the executor turns out to be able to judge nothing.
    """
    pacing = pacing or Pacing(Beside(problem, executor), Budget(Limits(), parallel=terms.parallel))
    return _Search(problem, provider, executor, transcript, terms, pacing).run()


class _Awaited(NamedTuple):
    """What a round waits for that nobody here waits for."""

    error: AwaitingAnswers | AwaitingGpu
    what: Prompt | Candidate


class _Search:
    """A run while it goes on. It is the transcript that it writes to: every event grows the tree."""

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
        """Questions without an answer, by round."""
        self.judged: dict[int, Candidate] = {}
        """Candidates without a verdict, by round."""
        self.number = self.unjudged = 0
        self.repeated: set[tuple[int, str]] = set()
        """Rounds and candidates that were judged once more."""
        self.stopped: AgentError | None = None
        """Why nothing is begun any more."""
        self.awaited: dict[int, _Awaited] = {}
        """Rounds whose answer or verdict nobody waits for now; they stay open."""

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
        """All that is awaited, in one."""
        errors = [one.error for one in self.awaited.values()]
        return type(errors[0])("; ".join(dict.fromkeys(map(str, errors))))

    def _is_open(self, identity: str) -> bool:
        """Whether this question or candidate is asked or judged just now, or awaited."""
        awaited = (one.what for one in self.awaited.values())
        return any(one.id == identity for one in (*self.asked.values(), *self.judged.values(), *awaited))

    def _ask(self) -> bool:
        """Asks what the policy wants, as long as the pace allows; whether anything was asked."""
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
        """What has come of a round: an answer, or a verdict."""
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
        """Raises ReplyError for an answer that holds none, or one that was judged before."""
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
        """A verdict, or that there is none; then the mend that it leads to, an attempt of its own."""
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
        # The last of several in a row has no event: whoever resumes the run judges it again.
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
        # A stored event says what followed it, also where an earlier version wrote it.
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
