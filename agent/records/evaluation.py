"""Records of a candidate and its verdict. Field names are the public JSON of `agent eval --json`."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from agent.records.base import SCHEMA_VERSION, Record, digest
from agent.records.envelope import Envelope
from agent.records.measurement import KernelTime, Measurement
from agent.records.mismatch import MismatchMap
from agent.records.phase import Phase
from agent.records.scope import Scope

Origin = Literal["model", "mend", "catalogue", "compose", "replay", "file"]
Stage = Literal["screen", "build", "run", "verify", "integrity", "measure"]
Severity = Literal["error", "warning", "note"]
LibraryOps = Literal["gemm-conv", "none", "any"]
"""Operators of torch that a candidate may call: matrix products and convolutions, none, or any."""


class Candidate(Record):
    """Source of one `ModelNew`, ready to be judged."""

    problem: str
    """Name of the problem that the candidate solves."""
    source: str
    """Complete Python file with ModelNew and its load_inline CUDA."""
    origin: Origin = "model"
    parent: str | None = None
    """Id of the candidate that was changed to make this candidate."""
    second_parent: str | None = None
    """Id of the candidate that the model was asked to combine with `parent`."""
    note: str | None = None
    """Remark for the transcript: place of the source in the answer, or mends made to the parent's source."""

    @property
    def id(self) -> str:
        return digest(self.problem, self.source)[:16]


class Status(StrEnum):
    """Outcome of judging a candidate; each value is the word in the public JSON."""

    REJECTED = "rejected"
    BUILD_ERROR = "build_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    INCORRECT = "incorrect"
    UNSUPPORTED = "unsupported"
    VERIFIED = "verified"


MAY_END_OTHERWISE = (Status.TIMEOUT, Status.UNSUPPORTED)
"""Statuses that may change if the same code is judged again; all other statuses are repeatable."""


class Location(Record):
    """Place of a finding: a line of the candidate's file, a place in a launch, or both."""

    line: int | None = None
    text: str | None = None
    kernel: str | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


class Finding(Record):
    """One fault of a candidate, or one remark about it, named by its cause."""

    kind: str
    """Stable identifier of the cause, such as `missing-declaration`."""
    message: str
    """Cause in one or two sentences, with the mend if there is one."""
    location: Location | None = None
    evidence: str | None = None
    """Text that shows the fault: a compiler message, wrong values or an excerpt."""
    count: int = Field(default=1, ge=1)
    severity: Severity = "error"


class KernelResources(Record):
    """Resources of one `__global__` function as ptxas reports them; None if ptxas did not run."""

    name: str
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None


class Build(Record):
    seconds: float
    backend: str
    """Build method: `emulator-ptx`, `emulator-slim` or `load_inline`."""
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    program: str | None = None
    """Hash of the built program, equal for candidates that compile to the same program; None if unknown."""


_NO_KERNELS = ("Memcpy", "Memset", "[CUDA mem")
"""Prefixes of the names that CUDA's profiler gives to copies and fills."""


class Profile(Record):
    """GPU work of one call as CUDA's profiler in the candidate's process reports it, longest kernel first."""

    kernels: tuple[KernelTime, ...]
    streams: int

    @property
    def launches(self) -> int:
        """Return the number of kernel launches, without the driver's copies and fills."""
        return sum(kernel.launches for kernel in self.kernels if not kernel.name.startswith(_NO_KERNELS))

    @property
    def own_share(self) -> float | None:
        """Return the share of GPU time spent in the candidate's own kernels, or None without GPU time."""
        whole = sum(kernel.ms for kernel in self.kernels)
        return sum(kernel.ms for kernel in self.kernels if kernel.own) / whole if whole > 0 else None


class Correctness(Record):
    """Largest errors of the output against the float64 ground truth, over all draws."""

    draws: int = Field(ge=1)
    max_abs_err: float | None
    max_rel_err: float | None
    error_budget_ratio: float | None
    """Largest ratio of an element's error to its tolerance; at most 1 for a verified candidate."""
    native_max_abs_err: float | None = None
    """Largest absolute error of the reference's own float32 runs in two summation orders, with TF32 off."""


class Admission(Record):
    """Results of probing a problem with wrong answers before a candidate is judged."""

    tried: int = 0
    """Number of wrong answers made from the reference and given to the comparator."""
    killed: int = 0
    """Number of wrong answers that the comparator refused."""
    survivors: tuple[str, ...] = ()
    """Wrong answers that would be verified."""
    equivalent: tuple[str, ...] = ()
    """Mutants that float32 cannot tell from the reference, and answers that compute the reference's own
    function. A candidate that equals one of these mutants is not wrong."""
    unresolved: tuple[str, ...] = ()
    """Mutants whose fault in one term or operator is too small to show in the output."""
    trivial: tuple[str, ...] = ()
    """Reasons why the problem needs no computation, such as a constant output or a returned input."""
    tightened: tuple[str, ...] = ()
    """Families of inputs without which a wrong answer would pass; candidates are judged on them too."""
    strength: float = 1.0
    """Smallest share of the full perturbation that was applied to parameters. It is below 1 if the
    reference's float32 run would otherwise miss the ground truth."""
    anyway: bool = False
    """True if the user admitted the problem in spite of survivors."""
    note: str | None = None

    @property
    def kill_rate(self) -> float | None:
        """Return the killed share of the wrong answers that are not equivalent. None if nothing was tried."""
        counted = self.tried - len(self.equivalent)
        return self.killed / counted if counted > 0 else None


class Environment(Record):
    """Versions of the software and hardware with which the verdict was reached."""

    python: str
    torch: str | None = None
    cuda: str | None = None
    driver: str | None = None
    gpu: str | None = None
    compiler: str | None = None


class Evaluation(Record):
    """The verdict on one candidate with all its evidence."""

    schema_version: int = SCHEMA_VERSION
    status: Status
    stage: Stage
    scope: Scope
    findings: tuple[Finding, ...] = ()
    """Findings, with the one that explains the status first."""
    build: Build | None = None
    correctness: Correctness | None = None
    measurement: Measurement | None = None
    profile: Profile | None = None
    environment: Environment | None = None
    admission: Admission | None = None
    envelope: Envelope | None = None
    """Behaviour of a verified candidate on inputs that the problem does not state; recorded, not judged."""
    mismatch: MismatchMap | None = None
    """Places where the output of an incorrect candidate is wrong; None if its structure is wrong."""
    phases: tuple[Phase, ...] = ()
    """Duration of each phase; the names of a second look's phases begin with `second look`."""

    @model_validator(mode="after")
    def _evidence_matches_status(self) -> Self:
        verified = self.status is Status.VERIFIED
        if self.measurement is not None and not (verified and self.scope.executor == "cuda"):
            raise ValueError("only a candidate verified on CUDA is measured")
        if verified and self.correctness is None:
            raise ValueError("a verified candidate carries its correctness evidence")
        if verified and any(finding.severity == "error" for finding in self.findings):
            raise ValueError("a verified candidate has no finding of severity error")
        if self.mismatch is not None and self.status is not Status.INCORRECT:
            raise ValueError("only an incorrect candidate has a mismatch map")
        if not verified and not self.findings:
            raise ValueError(f"a candidate judged {self.status} carries what was found")
        return self

    @property
    def headline(self) -> Finding | None:
        return self.findings[0] if self.findings else None

    @property
    def unconfirmed(self) -> bool:
        """Return True if the candidate is verified and its second look is still due."""
        is_due = self.scope.confirmed is False and not self.scope.doubt
        return self.status is Status.VERIFIED and is_due

    @property
    def withdrawn(self) -> bool:
        """Return True if the second look refused a candidate that the first look had verified."""
        return self.status is not Status.VERIFIED and self.scope.confirmed is False


class Attempt(Record):
    """One candidate with its own evaluation, in one immutable record."""

    number: int = Field(ge=1)
    """Number of the attempt in its run, counted from 1; the K of `RUN:K`."""
    candidate: Candidate
    evaluation: Evaluation


class Feedback(Record):
    """Text about the last answer for the next prompt."""

    attempt: int | None
    """Number of the attempt that the text is about; None if the answer held no usable code."""
    kind: str
    text: str
