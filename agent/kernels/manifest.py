"""kernel.json: what is known of a shipped kernel. Written by `agent kernels verify|bench|promote` alone.

Unknown numbers are None, never 0 or -1. A time is one of the library's operator on the named GPU, beside
torch's in the same run. Torch is not imported here.
"""

from typing import Literal

from pydantic import ValidationError

from agent.errors import EnvironmentFault
from agent.kernels import sources
from agent.records import Record, digest, misfit
from agent.store.disk import write_durably


class Times(Record):
    """Milliseconds at three percentiles of the calls."""

    p20: float
    p50: float
    p80: float


class Rival(Record):
    """Another way to the result, timed in the same run; errors as in Measured."""

    ms: Times
    max_abs_err: float
    rms_err: float


class Measured(Record):
    """One shape on one GPU, both sides timed in one run."""

    gpu: str
    driver: str
    cuda: str
    torch: str
    date: str
    commit: str
    shape: tuple[int, ...]
    dtype: str
    setting: str = ""
    """Groups, dimension, activation, direction: what else the call was given."""
    candidate_ms: Times
    eager_ms: Times | None = None
    compile_ms: Times | None = None
    roofline_fraction: float | None = None
    """Least traffic at the card's measured copy rate, or products at their peak where that takes longer, over
    the time."""
    max_abs_err: float | None = None
    """Against float64."""
    rms_err: float | None = None
    native_max_abs_err: float | None = None
    """Torch's own, against the same."""
    native_rms_err: float | None = None
    rivals: dict[str, Rival] = {}
    """By name, `TF32`."""
    ratio_ci: tuple[float, float] | None = None
    """95 % interval of the best torch time over this one; above 1 the kernel is faster."""


class Verified(Record):
    """The verdict on the ModelNew face."""

    problem: str
    executor: Literal["cuda", "emulator"]
    status: str
    scope: str
    verifier_version: str
    files: str
    """Digest of the files it was reached on."""
    date: str
    torch: str
    max_abs_err: float | None = None
    error_budget_ratio: float | None = None


class Manifest(Record):
    """kernel.json of one kernel."""

    name: str
    version: int = 1
    operators: tuple[str, ...] = ()
    """Schemas of what is registered with torch.library."""
    dtypes: tuple[str, ...] = ()
    envelope: tuple[str, ...] = ()
    files: dict[str, str] = {}
    """Digest of the code of each file that decides what the kernel does."""
    verifier_version: str | None = None
    """Of the judge that last verified these files; None where none has."""
    source: str = "written by hand"
    verified: tuple[Verified, ...] = ()
    """One for each executor, the latest."""
    measured: tuple[Measured, ...] = ()

    def speaks_for_present(self, verdict: Verified) -> bool:
        """Whether the verdict was reached on the files that are shipped now."""
        return verdict.files == fingerprint(self.name)

    def stale(self, verifier_version: str) -> str | None:
        """Why its verdict does not speak for what is shipped now; None where it does."""
        if not self.verified:
            return "it was never verified"
        if self.files != sources.files(self.name):
            return "its files have changed since it was verified"
        if self.verifier_version is None:
            return "it did not hold when it was judged last"
        if self.verifier_version != verifier_version:
            return f"the judge is {verifier_version} now, and {self.verifier_version} verified it"
        return None


def fingerprint(name: str) -> str:
    """Of the files that decide what the kernel does."""
    return digest(*(f"{path} {content}" for path, content in sorted(sources.files(name).items())))


def load(name: str) -> Manifest:
    """The manifest of a kernel; an empty one where none was written yet.

    Raises EnvironmentFault for a file that is no manifest.
    """
    path = sources.ROOT / name / sources.MANIFEST
    if not path.is_file():
        return Manifest(name=name)
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise EnvironmentFault(
            f"{path} is not a valid kernel manifest ({misfit(error)}); remove it and run "
            "`agent kernels verify` or `agent kernels promote` again"
        ) from None


def save(manifest: Manifest) -> None:
    """Raises EnvironmentFault where the package's folder cannot be written."""
    path = sources.ROOT / manifest.name / sources.MANIFEST
    try:
        write_durably(path, (manifest.model_dump_json(indent=1) + "\n").encode())
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {path}: {error.strerror}; kernel.json can only be written in a "
            "source checkout, not in an installed package"
        ) from error


def with_verdict(manifest: Manifest, verdict: Verified) -> Manifest:
    """The manifest with a verdict in place of the executor's earlier one."""
    kept = tuple(one for one in manifest.verified if one.executor != verdict.executor)
    holds = verdict.status == "verified"
    return manifest.model_copy(
        update={
            "verified": tuple(sorted((*kept, verdict), key=lambda one: one.executor)),
            "files": sources.files(manifest.name),
            "verifier_version": verdict.verifier_version if holds else None,
        }
    )


def with_times(manifest: Manifest, measured: tuple[Measured, ...]) -> Manifest:
    """The manifest with new times in place of those of the same GPU, shape and setting."""

    def place(one: Measured) -> tuple[object, ...]:
        return one.gpu, one.shape, one.dtype, one.setting

    new = {place(one) for one in measured}
    return manifest.model_copy(
        update={"measured": (*(one for one in manifest.measured if place(one) not in new), *measured)}
    )
