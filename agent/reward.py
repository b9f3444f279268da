"""Scores of completions, for training: what a verdict is worth, in parts.

    from agent import reward

    scores = reward.score("level1/softmax", completions, executor="emulator", parallel=2)
    [score.total for score in scores]

Contract: the score is a function of the verdict alone, which is reached out of the candidate's reach. A
candidate that is rejected, for what it does and not for what it computes, earns nothing, less than one that
is wrong. The same candidate has the same score however often it comes. What could not be judged for a reason
of ours has no score (`total` is None): leave it out of the step, it is nobody's mistake.
"""

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import log2
from typing import Literal, Protocol

from agent import parse
from agent.api import Checks, Judge
from agent.api.judge import Address, ExecutorName
from agent.api.listening import Progress
from agent.errors import EnvironmentFault, ReplyError
from agent.records import Candidate, Completion, Evaluation, Problem, Record, Stage, Status

__all__ = ["Judging", "Part", "Rewards", "Scale", "Score", "score", "scored", "taken", "unjudged"]

Part = Literal["parsed", "built", "verified", "speed"]
LARGEST_BYTES = 2**20
"""A longer completion holds no candidate."""
KNOWN = 100_000
"""So many scores are remembered, the last ones."""
_UNBUILT: tuple[Stage, ...] = ("screen", "build")
_NO_CHEATING = frozenset({"no-model-new", "syntax-error"})
"""Kinds for which the screen rejects what is no candidate at all."""


class Scale(Record):
    """What each part is worth; they are added up."""

    parsed: float = 0.05
    """The completion holds a Python file with ModelNew."""
    built: float = 0.05
    """It builds, and is not rejected."""
    verified: float = 0.9
    """Every check of the protocol passes."""
    doubling: float = 0.5
    """Each doubling of the speed beyond the fastest baseline, by the lower end of the interval."""
    most_speed: float = 2.0
    """What speed may earn in all."""


class Score(Record):
    """What one completion earns, and why."""

    total: float | None
    """The sum of the parts; None where a fault of ours or of the machine kept it from being judged."""
    parts: dict[Part, float] = {}
    parsed: bool = False
    built: bool = False
    verified: bool = False
    speedup: float | None = None
    """Of a verified one that was timed, the lower end of the interval where there is one."""
    against: str | None = None
    """The baseline that the speedup is quoted against: `eager`, `compile` or `graph`."""
    cheating: tuple[str, ...] = ()
    """The kinds of findings for which it was rejected."""
    status: Status | None = None
    scope: str = ""
    """What the verdict covers."""
    why: str = ""
    """The first finding, or why there is no candidate or no verdict, in a line."""


class Judging(Protocol):
    """Who judges candidates for one problem: a `Judge` of this machine, or one of a service."""

    @property
    def problem(self) -> Problem: ...

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Raises EnvironmentFault when nothing can be judged."""
        ...


def score(
    problem: Address | Problem, completions: Sequence[str | Completion], *,
    executor: ExecutorName | None = None, checks: Checks | None = None, parallel: int = 1,
    progress: Progress = None,
) -> tuple[Score, ...]:  # fmt: skip
    """The score of each completion, in their order. For more than one batch make a `Rewards`.

    Raises UsageError, ProblemError and EnvironmentFault as `Judge` does.
    """
    judge = Judge(problem, executor=executor, checks=checks, progress=progress)
    return Rewards(judge, parallel=parallel)(completions)


class Rewards:
    """Scores batches of completions for one problem; each candidate is judged once."""

    def __init__(self, judge: Judging, *, scale: Scale | None = None, parallel: int = 1) -> None:
        """`parallel`: so many candidates are judged at the same time."""
        self._judge, self._scale, self._parallel = judge, scale or Scale(), parallel
        self._known: OrderedDict[str, Score] = OrderedDict()

    def __call__(self, completions: Sequence[str | Completion]) -> tuple[Score, ...]:
        """The score of each completion, in their order. Not for several threads at a time."""
        found_in = [taken(self._judge.problem.name, one) for one in completions]
        new = {one.id: one for one in found_in if isinstance(one, Candidate) and one.id not in self._known}
        with ThreadPoolExecutor(self._parallel) as pool:
            found = dict(zip(new, pool.map(self._judged, new.values()), strict=True))
        scores = tuple(
            one if isinstance(one, Score) else found.get(one.id) or self._known[one.id] for one in found_in
        )
        self._known.update({name: one for name, one in found.items() if one.total is not None})
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return scores

    def _judged(self, candidate: Candidate) -> Score:
        try:
            found = self._judge.evaluate(candidate)
        except EnvironmentFault as fault:
            return unjudged(str(fault))
        return scored(found, self._scale)


def taken(problem: str, completion: str | Completion) -> Candidate | Score:
    """The candidate in a completion, or the score of one that holds none."""
    if isinstance(completion, str):
        completion = Completion(provider="reward", model=None, text=completion)
    if len(completion.text.encode("utf-8", "replace")) > LARGEST_BYTES:
        return Score(total=0.0, why=f"longer than {LARGEST_BYTES >> 20} MiB")
    try:
        return parse.candidate(problem, completion, None)
    except ReplyError as error:
        return Score(total=0.0, why=f"{error.kind}: {error}".splitlines()[0])


def unjudged(why: str) -> Score:
    """Of a candidate on which there is no verdict for a reason of ours."""
    return Score(total=None, parsed=True, why=f"not judged: {why}")


def scored(found: Evaluation, scale: Scale | None = None) -> Score:
    """What a verdict is worth."""
    scale = scale or Scale()
    rejected = found.status is Status.REJECTED
    kinds = (finding.kind for finding in found.findings if finding.severity == "error")
    cheating = tuple(kind for kind in dict.fromkeys(kinds) if kind not in _NO_CHEATING) if rejected else ()
    verified = found.status is Status.VERIFIED
    built = not rejected and found.status is not Status.BUILD_ERROR and found.stage not in _UNBUILT
    speedup, against = _speedup(found)
    parts: dict[Part, float] = {
        "parsed": 0.0 if rejected else scale.parsed,
        "built": scale.built if built else 0.0,
        "verified": scale.verified if verified else 0.0,
        "speed": _speed(speedup, scale),
    }
    headline = found.headline
    return Score(
        total=sum(parts.values()), parts=parts, parsed=True, built=built, verified=verified, speedup=speedup,
        against=against, cheating=cheating, status=found.status, scope=str(found.scope),
        why=f"{headline.kind}: {headline.message}".splitlines()[0] if headline else "",
    )  # fmt: skip


def _speedup(found: Evaluation) -> tuple[float | None, str | None]:
    """What a time is worth that was measured and, where a second look belongs to it, confirmed."""
    measured = found.measurement
    if measured is None or measured.stable is False or found.scope.confirmed is False:
        return None, None
    low = measured.speedup_interval[0] if measured.speedup_interval else measured.speedup
    return low, measured.baseline


def _speed(speedup: float | None, scale: Scale) -> float:
    if speedup is None or speedup <= 1.0:
        return 0.0
    return min(scale.most_speed, scale.doubling * log2(speedup))
