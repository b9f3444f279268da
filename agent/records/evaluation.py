"""A candidate and the verdict on it. Field names are the public JSON of `agent eval --json`."""

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
"""Operators of torch that may stay in a candidate."""


class Candidate(Record):
    """Source of one `ModelNew`, ready to be judged."""

    problem: str
    """Name of the problem it answers."""
    source: str
    """Complete Python file with ModelNew and its load_inline CUDA."""
    origin: Origin = "model"
    parent: str | None = None
    """Id of the attempt this one was made from."""
    second_parent: str | None = None
    """Id of the attempt that the model was asked to combine the first one with."""
    note: str | None = None
    """Origin of the source, for the transcript: its place in the answer, or the mends of its parent's."""

    @property
    def id(self) -> str:
        return digest(self.problem, self.source)[:16]


class Status(StrEnum):
    """Outcome of a candidate, in the words of the contract."""

    REJECTED = "rejected"
    BUILD_ERROR = "build_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    INCORRECT = "incorrect"
    UNSUPPORTED = "unsupported"
    VERIFIED = "verified"


MAY_END_OTHERWISE = (Status.TIMEOUT, Status.UNSUPPORTED)
"""Statuses that may differ if the same code is judged again. Any other verdict would be the same."""


class Location(Record):
    """Place of a finding: a line of the candidate's file, a place in a launch, or both."""

    line: int | None = None
    text: str | None = None
    kernel: str | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


class Finding(Record):
    """One thing that was found, named by its cause."""

    kind: str
    """Stable identifier, `missing-declaration`."""
    message: str
    """One or two sentences that name the cause, and the mend where there is one."""
    location: Location | None = None
    evidence: str | None = None
    """Evidence: the compiler's words, values, an excerpt."""
    count: int = Field(default=1, ge=1)
    severity: Severity = "error"


class KernelResources(Record):
    """One `__global__` function as ptxas reports it; None where no ptxas ran."""

    name: str
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None


class Build(Record):
    seconds: float
    backend: str
    """Which way the sources were built: `emulator-ptx`, `emulator-slim` or `load_inline`."""
    warnings: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    program: str | None = None
    """Equal for candidates that are the same once they are built; None where that is not known."""


_NO_KERNELS = ("Memcpy", "Memset", "[CUDA mem")
"""Prefixes of the profilers' names for copies and fills."""


class Profile(Record):
    """Work of the GPU during one call, longest first, by the CUDA profiler in the candidate's process."""

    kernels: tuple[KernelTime, ...]
    streams: int

    @property
    def launches(self) -> int:
        """Return the number of kernel launches. Copies and fills by the driver do not count."""
        return sum(kernel.launches for kernel in self.kernels if not kernel.name.startswith(_NO_KERNELS))

    @property
    def own_share(self) -> float | None:
        """Return the share of the GPU's time that the candidate's own kernels took. None without GPU time."""
        whole = sum(kernel.ms for kernel in self.kernels)
        return sum(kernel.ms for kernel in self.kernels if kernel.own) / whole if whole > 0 else None


class Correctness(Record):
    """Largest errors of the output against the float64 ground truth, over all draws."""

    draws: int = Field(ge=1)
    max_abs_err: float | None
    max_rel_err: float | None
    error_budget_ratio: float | None
    """Largest share of the allowed error that was used; at most 1 for a verified candidate."""
    native_max_abs_err: float | None = None
    """The yardstick: the reference's own float32 error in two summation orders, TF32 off."""


class Admission(Record):
    """Number of wrong answers that a problem tells from right ones, found before a candidate is judged."""

    tried: int = 0
    """Wrong answers made from the reference itself and put through the comparator."""
    killed: int = 0
    survivors: tuple[str, ...] = ()
    """Wrong answers that would be verified."""
    equivalent: tuple[str, ...] = ()
    """Mutants that float32 cannot tell from the reference, and answers that are its own function: no
    candidate is wrong by being like them."""
    unresolved: tuple[str, ...] = ()
    """Faults of single terms or operators that are too fine for the output to show."""
    trivial: tuple[str, ...] = ()
    """Why this problem asks for no computation, in words: a constant output, an input handed through."""
    tightened: tuple[str, ...] = ()
    """Families of inputs without which a wrong answer would pass; candidates meet them too."""
    strength: float = 1.0
    """The least share of the full perturbation that parameters had; below 1 where float32 would otherwise
    miss its own truth."""
    anyway: bool = False
    """Admitted by the user in spite of survivors."""
    note: str | None = None

    @property
    def kill_rate(self) -> float | None:
        """Return the killed share of the wrong answers that are not equivalent. None if nothing was tried."""
        counted = self.tried - len(self.equivalent)
        return self.killed / counted if counted > 0 else None


class Environment(Record):
    """Versions that the verdict was reached with."""

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
    """Headline first."""
    build: Build | None = None
    correctness: Correctness | None = None
    measurement: Measurement | None = None
    profile: Profile | None = None
    environment: Environment | None = None
    admission: Admission | None = None
    envelope: Envelope | None = None
    """Inputs beyond the stated ones that a verified candidate handles; recorded, not judged."""
    mismatch: MismatchMap | None = None
    """Places where the output of an incorrect candidate is wrong; None if its structure is wrong."""
    phases: tuple[Phase, ...] = ()
    """Seconds of each phase; those of a second look carry its name."""

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
        """Return True if the candidate is verified and a second look at it is still to be made."""
        is_due = self.scope.confirmed is False and not self.scope.doubt
        return self.status is Status.VERIFIED and is_due

    @property
    def withdrawn(self) -> bool:
        """Return True if the second look refused what the first one had verified."""
        return self.status is not Status.VERIFIED and self.scope.confirmed is False


class Attempt(Record):
    """One candidate with its own evaluation. The two are never paired across attempts."""

    number: int = Field(ge=1)
    """Position in the run, counted from 1: the K of `RUN:K`."""
    candidate: Candidate
    evaluation: Evaluation


class Feedback(Record):
    """Text about the last answer for the next prompt."""

    attempt: int | None
    """Number of the attempt it belongs to; None when the answer held no usable code."""
    kind: str
    text: str
