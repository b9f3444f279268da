"""Record of a shipped kernel, kernel.json, written only by `agent kernels verify|bench|promote`.

Unknown numbers are None, never 0 or -1. Times are those of the library's operator on the named GPU, beside
torch's operator in the same run. Torch is not imported here.
"""

from typing import Literal

from pydantic import ValidationError

from agent.errors import EnvironmentFault
from agent.kernels import sources
from agent.records import Record, digest, misfit
from agent.store.disk import write_durably


class Times(Record):
    """Milliseconds per call at three percentiles."""

    p20: float
    p50: float
    p80: float


class Rival(Record):
    """Another implementation timed in the same run; errors as in Measured."""

    ms: Times
    max_abs_err: float
    rms_err: float


class Measured(Record):
    """One shape on one GPU, all sides timed in one run."""

    gpu: str
    driver: str
    cuda: str
    torch: str
    date: str
    commit: str
    shape: tuple[int, ...]
    dtype: str
    setting: str = ""
    """Further arguments of the call, such as groups, dimension or activation, and the direction."""
    candidate_ms: Times
    eager_ms: Times | None = None
    compile_ms: Times | None = None
    roofline_fraction: float | None = None
    """Roofline time over measured time.

    The roofline is the minimum traffic at the card's measured copy rate, or the products at peak if that is
    longer."""
    max_abs_err: float | None = None
    """Error of the kernel against float64."""
    rms_err: float | None = None
    native_max_abs_err: float | None = None
    """Error of torch's operator against float64."""
    native_rms_err: float | None = None
    rivals: dict[str, Rival] = {}
    """Rivals by name, such as `TF32`."""
    ratio_ci: tuple[float, float] | None = None
    """95 % interval of (best torch time / kernel's time); above 1 the kernel is faster."""


class Verified(Record):
    """Verdict on the kernel's ModelNew file."""

    problem: str
    executor: Literal["cuda", "emulator"]
    status: str
    scope: str
    verifier_version: str
    files: str
    """Digest of the files that were judged."""
    date: str
    torch: str
    max_abs_err: float | None = None
    error_budget_ratio: float | None = None


class Manifest(Record):
    """Contents of one kernel.json."""

    name: str
    version: int = 1
    operators: tuple[str, ...] = ()
    """Schemas of the operators registered with torch.library."""
    dtypes: tuple[str, ...] = ()
    envelope: tuple[str, ...] = ()
    files: dict[str, str] = {}
    """Digest of the code of each file that decides what the kernel does."""
    verifier_version: str | None = None
    """Version of the judge that last verified these files, or None if none has."""
    source: str = "written by hand"
    verified: tuple[Verified, ...] = ()
    """Latest verdict of each executor."""
    measured: tuple[Measured, ...] = ()

    def speaks_for_present(self, verdict: Verified) -> bool:
        """Return True if the verdict was reached on the files that are shipped now."""
        return verdict.files == fingerprint(self.name)

    def stale(self, verifier_version: str) -> str | None:
        """Return why the verdict does not hold for the shipped files, or None if it does."""
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
    """Return the digest of all files that affect the kernel's results."""
    return digest(*(f"{path} {content}" for path, content in sorted(sources.files(name).items())))


def load(name: str) -> Manifest:
    """Return the manifest of a kernel, or an empty one if none was written yet.

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
    """Write the manifest. Raises EnvironmentFault if the package's folder cannot be written."""
    path = sources.ROOT / manifest.name / sources.MANIFEST
    try:
        write_durably(path, (manifest.model_dump_json(indent=1) + "\n").encode())
    except OSError as error:
        raise EnvironmentFault(
            f"cannot write {path}: {error.strerror}; kernel.json can only be written in a "
            "source checkout, not in an installed package"
        ) from error


def with_verdict(manifest: Manifest, verdict: Verified) -> Manifest:
    """Return the manifest with the verdict in place of the executor's earlier one."""
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
    """Return the manifest with new times in place of those of the same GPU, shape, dtype and setting."""

    def place(one: Measured) -> tuple[object, ...]:
        return one.gpu, one.shape, one.dtype, one.setting

    new = {place(one) for one in measured}
    return manifest.model_copy(
        update={"measured": (*(one for one in manifest.measured if place(one) not in new), *measured)}
    )
