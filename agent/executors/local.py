"""The executors of this machine, GPU and emulator, both behind a judge process."""

import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from agent import config, errors, problems
from agent.harness import admission, locating
from agent.harness.job import BUILD_LIMIT_S, EMULATOR_ELEMENTS, EMULATOR_MACS, ORACLE_LIMIT_S, Job
from agent.harness.kept import kept
from agent.problems import Shrunken
from agent.records import (
    Admission,
    Candidate,
    Evaluation,
    LibraryOps,
    Measurement,
    Problem,
    Request,
    Status,
    digest,
)
from agent.sandbox import Child, ChildFault, Limits

Announce = Callable[[str], None]
JUDGE = Limits(gentle=True)
JUDGE_LIMIT_S = 4 * (BUILD_LIMIT_S + ORACLE_LIMIT_S)
"""A stop for a judge that hangs; every step inside has a tighter limit of its own."""


class LocalExecutor:
    """One judge process per candidate, in an environment without secrets.

    On `cuda` candidates are built fast, or by stock `load_inline`, and judged at full shapes, and verified
    ones are timed; the `emulator` runs their kernels on the CPU at affordable shapes and never yields a time.
    """

    library_ops: LibraryOps = "gemm-conv"
    """Which of torch's operators may stay in a candidate."""
    protocol: Literal["full", "quick"] = "full"
    requests: tuple[Request, ...] = ()
    """What is judged beside the protocol."""
    measure: bool = True
    """Whether a verified candidate is timed."""
    unchecked: bool = False
    """Whether the emulator's sanitizer stays off."""

    def __init__(
        self, name: Literal["cuda", "emulator"], *, candidate_timeout_s: float, cache_dir: Path,
        floor_ms: float | None = None, announce: Announce = lambda what: None,
    ) -> None:  # fmt: skip
        self.name = name
        self._candidate_timeout_s = candidate_timeout_s
        self._cache_dir = cache_dir
        self._floor_ms = floor_ms
        self._announce = announce
        self._shrunken: dict[str, Shrunken] = {}
        self._admissions: dict[str, Admission] = {}

    def admit(self, problem: Problem, anyway: bool = False) -> Admission:
        """Probes the problem, or recalls that; candidates for it are judged accordingly from then on.

        Raises ProblemError for a problem that would let wrong answers pass, unless `anyway`.
        """
        self._announce("probing the problem with wrong answers")
        found = admission.probed(problem, lambda: self._sizes(problem), self._cache_dir)
        self._admissions[problem.id] = admission.check(problem, found, anyway)
        return self._admissions[problem.id]

    def evaluate(self, problem: Problem, candidate: Candidate, best: Evaluation | None = None) -> Evaluation:
        """On a GPU a candidate that beats `best` is judged a second time, and that verdict stands."""
        return self.judge(self.job(problem, candidate), best.measurement if best else None)

    def judge(self, job: Job, rival: Measurement | None = None) -> Evaluation:
        """The verdict on a job; on a GPU that of the second look where there is reason for one."""
        found = judged(job, self._announce)
        unlocated = locating.wanted(found)
        if unlocated is not None:
            where = job.model_copy(update={"locates": unlocated, "shrunken": self._sizes(job.problem)})
            return locating.located(found, lambda: judged(where, self._announce))
        times = found.measurement
        if job.executor == "emulator" or job.protocol == "quick" or found.status is not Status.VERIFIED:
            return found
        if times is not None and not times.beats(rival):
            return found
        again = {"confirms": True, "shrunken": self._sizes(job.problem)}
        return judged(job.model_copy(update=again), lambda what: self._announce(f"new best: {what}"))

    def job(self, problem: Problem, candidate: Candidate) -> Job:
        """What the judge is told about one candidate."""
        return Job(
            problem=problem,
            candidate=candidate,
            executor=self.name,
            candidate_timeout_s=self._candidate_timeout_s,
            cache_dir=str(self._cache_dir),
            library_ops=self.library_ops,
            unchecked=self.unchecked,
            protocol=self.protocol,
            requests=self.requests,
            measure=self.measure,
            admission=self._admissions.get(problem.id) or self.admit(problem, anyway=True),
            floor_ms=self._floor_ms,
            shrunken=self._sizes(problem) if self.name == "emulator" else None,
        )

    def _sizes(self, problem: Problem) -> Shrunken:
        if problem.id not in self._shrunken:
            self._announce("scaling the sizes down for the emulator")
            limits = {"max_elements": EMULATOR_ELEMENTS, "max_macs": EMULATOR_MACS}
            key = digest(problem.source, version("torch"), _planning(), *map(str, limits.values()))
            file = self._cache_dir / "sizes" / f"{key[:32]}.json"
            self._shrunken[problem.id] = kept(file, Shrunken, lambda: problems.shrink(problem, **limits))
        return self._shrunken[problem.id]


@cache
def _planning() -> str:
    """Changes with the code that plans the sizes."""
    return digest(*(file.read_text() for file in sorted(Path(problems.__file__).parent.glob("*.py"))))


def judged(job: Job, announce: Announce) -> Evaluation:
    """Runs the judge on one job. Raises the AgentError the judge ended with."""
    argv = [sys.executable, "-P", "-m", "agent.harness.judge"]
    environment = config.child_environment()
    environment["PYTHONPATH"] = config.with_package(environment)
    with Child(argv, cwd=Path.cwd(), env=environment, limits=JUDGE) as judge:

        def progress(message: dict[str, object]) -> dict[str, object]:
            announce(str(message.get("what")))
            return {}

        try:
            answer = judge.ask(job.model_dump(mode="json"), JUDGE_LIMIT_S, progress)
        except ChildFault as fault:
            tail = "\n".join(judge.log.splitlines()[-15:])
            raise errors.EnvironmentFault(f"the judge {fault}; its last words:\n{tail}") from None
    if "fault" in answer:
        raise _fault(answer["fault"])
    return Evaluation.model_validate(answer["evaluation"])


def _fault(fault: dict[str, object]) -> errors.AgentError:
    kinds = {2: errors.ProblemError, 3: errors.EnvironmentFault}
    return kinds.get(int(str(fault["exit"])), errors.EnvironmentFault)(str(fault["message"]))
