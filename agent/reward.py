"""Scores of completions for training, composed of parts that follow from the verdict.

    from agent import reward

    scores = reward.score("level1/softmax", completions, executor="emulator", parallel=2)
    [score.total for score in scores]

Contract: the score depends on the verdict alone, which is reached outside the candidate's reach. A candidate
that is rejected for its behaviour earns nothing, which is less than one with wrong results earns. A repeated
candidate always has the same score. A candidate that an infrastructure fault kept from being judged has no
score (`total` is None). Leave it out of the training step.
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
"""Maximum size of a completion in bytes. A longer one scores as holding no candidate."""
KNOWN = 100_000
"""Maximum number of remembered scores. The oldest are dropped."""
_UNBUILT: tuple[Stage, ...] = ("screen", "build")
_NO_CHEATING = frozenset({"no-model-new", "syntax-error"})
"""Kinds of findings for which the screen rejects a text that is no candidate. They are not cheating."""


class Scale(Record):
    """Value of each part of a score. The total is their sum."""

    parsed: float = 0.05
    """Reward if the completion holds a Python file with ModelNew."""
    built: float = 0.05
    """Reward if the candidate builds and is not rejected."""
    verified: float = 0.9
    """Reward if every check of the protocol passes."""
    doubling: float = 0.5
    """Reward per doubling of the speed over the fastest baseline, by the lower end of the interval."""
    most_speed: float = 2.0
    """Maximum reward for the speedup."""


class Score(Record):
    """Score of one completion, with its reasons."""

    total: float | None
    """Sum of the parts. None if an infrastructure fault kept the candidate from being judged."""
    parts: dict[Part, float] = {}
    parsed: bool = False
    built: bool = False
    verified: bool = False
    speedup: float | None = None
    """Speedup of a timed candidate: the lower end of the interval if there is one, else the estimate."""
    against: str | None = None
    """Baseline of the speedup: `eager`, `compile` or `graph`."""
    cheating: tuple[str, ...] = ()
    """Kinds of findings for which the candidate was rejected as cheating."""
    status: Status | None = None
    scope: str = ""
    """Scope of the verdict."""
    why: str = ""
    """First finding, or the reason for a missing candidate or verdict, in one line."""


class Judging(Protocol):
    """Interface to judge candidates for one problem, on this machine (`Judge`) or on a service."""

    @property
    def problem(self) -> Problem: ...

    def evaluate(self, candidate: Candidate) -> Evaluation:
        """Return the verdict on a candidate. Raises EnvironmentFault if nothing can be judged."""
        ...


def score(
    problem: Address | Problem, completions: Sequence[str | Completion], *,
    executor: ExecutorName | None = None, checks: Checks | None = None, parallel: int = 1,
    progress: Progress = None,
) -> tuple[Score, ...]:  # fmt: skip
    """Return the score of each completion, in order. For several batches, create a `Rewards`.

    Raises UsageError, ProblemError and EnvironmentFault as `Judge` does.
    """
    judge = Judge(problem, executor=executor, checks=checks, progress=progress)
    return Rewards(judge, parallel=parallel)(completions)


class Rewards:
    """Scores batches of completions for one problem and judges each distinct candidate once."""

    def __init__(self, judge: Judging, *, scale: Scale | None = None, parallel: int = 1) -> None:
        """Create a scorer that judges up to `parallel` candidates at the same time."""
        self._judge, self._scale, self._parallel = judge, scale or Scale(), parallel
        self._known: OrderedDict[str, Score] = OrderedDict()

    def __call__(self, completions: Sequence[str | Completion]) -> tuple[Score, ...]:
        """Return the score of each completion, in order. Not thread-safe."""
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
    """Return the candidate in a completion, or the score of a completion without one."""
    if isinstance(completion, str):
        completion = Completion(provider="reward", model=None, text=completion)
    if len(completion.text.encode("utf-8", "replace")) > LARGEST_BYTES:
        return Score(total=0.0, why=f"longer than {LARGEST_BYTES >> 20} MiB")
    try:
        return parse.candidate(problem, completion, None)
    except ReplyError as error:
        return Score(total=0.0, why=f"{error.kind}: {error}".splitlines()[0])


def unjudged(why: str) -> Score:
    """Return the score of a candidate that an infrastructure fault kept from being judged."""
    return Score(total=None, parsed=True, why=f"not judged: {why}")


def scored(found: Evaluation, scale: Scale | None = None) -> Score:
    """Return the score that a verdict earns."""
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
    """Return the speedup and its baseline, or None for both if the time is missing or not reliable."""
    measured = found.measurement
    if measured is None or measured.stable is False or found.scope.confirmed is False:
        return None, None
    low = measured.speedup_interval[0] if measured.speedup_interval else measured.speedup
    return low, measured.baseline


def _speed(speedup: float | None, scale: Scale) -> float:
    if speedup is None or speedup <= 1.0:
        return 0.0
    return min(scale.most_speed, scale.doubling * log2(speedup))
