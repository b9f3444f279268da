"""Check of device code by NVIDIA's compiler, which runs alongside g++ and is weighed against its findings.

nvcc is the authority on device code, and g++ on host code. An error of nvcc in device code counts even if
g++ accepts the line. An error of g++ in device code that nvcc accepts is a gap of the emulator.
"""

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from agent.build import compiler, nvcc, objects
from agent.build.build_request import BuildRequest
from agent.build.nvcc import regions, unit
from agent.build.nvcc.check import INCLUDE
from agent.build.toolchain import Toolchain
from agent.records import Finding, digest

GAP = "header-gap"
"""Kind of findings about names or features that the emulator lacks; they are not faults of the candidate."""


class DeviceCheck:
    """Check of one request's device code by nvcc, in a scratch directory; no findings without nvcc.

    The check has two steps: nvcc compiles the source to PTX, and ptxas assembles the PTX. Callers that need
    only the PTX wait only for the first step.
    """

    def __init__(self, toolchain: Toolchain, request: BuildRequest, scratch: Path, cache: Path) -> None:
        self._toolchain, self._request, self._cache = toolchain, request, cache
        self.scratch = scratch
        self._nvcc = nvcc.find() if request.cuda.strip() else None
        self._key = digest("nvcc", toolchain.key, key(request))[:32]
        said = objects.cached_file(cache, self._key, nvcc.PTX, scratch) if self._nvcc else None
        self._cached = nvcc.Verdict.model_validate_json(said) if said else None
        self._made: compiler.Outcome | None = None

    def commands(self, *, fuller: bool = False) -> list[list[str]]:
        """Return the command that makes the PTX in the scratch directory, or [] if none is needed."""
        if self._nvcc is None or self._cached is not None:
            return []
        return [nvcc.command(self._nvcc, self._toolchain, self._request, self.scratch, fuller=fuller)]

    def has_ptx(self, outcomes: list[compiler.Outcome], timeout_s: float, *, retry: bool) -> bool:
        """Return True if the PTX is in the scratch directory; `outcomes` are those of `commands`.

        `retry` permits a second run of nvcc with fuller headers if torch's bare names were not enough.
        """
        if not outcomes:
            return self._cached is not None and self._cached.accepted
        [self._made] = outcomes
        if retry and not self._made.succeeded and nvcc.read(self._made, self._request, self.scratch).is_ours:
            again = self.commands(fuller=True)
            [self._made] = compiler.run(again, self.scratch, timeout_s, self._toolchain.visible)
        return self._made.succeeded

    def assembling(self) -> list[list[str]]:
        """Return the command that assembles the PTX in the scratch directory, or [] if none is needed."""
        if self._nvcc is None or self._made is None or not self._made.succeeded:
            return []
        return [nvcc.assembly(self._nvcc, self._toolchain, self._request)]

    def verdict(self, outcomes: list[compiler.Outcome]) -> nvcc.Verdict:
        """Return the verdict from the outcomes of `assembling`, and cache it if nvcc accepted the code."""
        if self._made is None:
            return self._cached or nvcc.Verdict()
        said = self._made.messages + "".join(outcome.messages for outcome in outcomes)
        last = (outcomes or [self._made])[-1]
        found = nvcc.read(replace(last, messages=said), self._request, self.scratch)
        if found.accepted and (self.scratch / nvcc.PTX).is_file():
            objects.keep_file(self._cache, self._key, self.scratch / nvcc.PTX, found.model_dump_json())
        return found


def alone(toolchain: Toolchain, request: BuildRequest, cache_dir: Path, timeout_s: float) -> nvcc.Verdict:
    """Return NVIDIA's verdict on code that the emulator does not support at all."""
    with _checked(toolchain, request, cache_dir, timeout_s) as (check, _):
        return check.verdict(compiler.run(check.assembling(), check.scratch, timeout_s, toolchain.visible))


def ptx(toolchain: Toolchain, request: BuildRequest, cache_dir: Path, timeout_s: float) -> str | None:
    """Return the PTX of the device code, or None if there is no device code or nvcc rejects it."""
    with _checked(toolchain, request, cache_dir, timeout_s) as (check, has_ptx):
        return (check.scratch / nvcc.PTX).read_text(errors="replace") if has_ptx else None


@contextmanager
def _checked(
    toolchain: Toolchain, request: BuildRequest, cache_dir: Path, timeout_s: float
) -> Iterator[tuple[DeviceCheck, bool]]:
    """Yield a check in its own scratch directory, and True if nvcc has written the PTX there."""
    cache_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_dir, prefix="checking-") as folder:
        check = DeviceCheck(toolchain, request, Path(folder), cache_dir)
        made = compiler.run(check.commands(), check.scratch, timeout_s, toolchain.visible)
        yield check, check.has_ptx(made, timeout_s, retry=True)


def key(request: BuildRequest) -> str:
    """Return a cache key that changes with every input that may change nvcc's verdict on the request."""
    tool = nvcc.find() if request.cuda.strip() else None
    if tool is None:
        return "unchecked"
    return digest(
        tool.version,
        _headers(),
        unit.architecture(request),
        *unit.flags(request),
        unit.text(request, named=True),
    )


@cache
def _headers() -> str:
    parts = [path.read_bytes() for path in sorted(INCLUDE.rglob("*")) if path.is_file()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def notes(request: BuildRequest, verdict: nvcc.Verdict) -> tuple[str, ...]:
    """Return scope notes on parts of the check that did not happen."""
    if not request.cuda.strip():
        return ()
    if verdict.gap is not None:
        return (f"NVIDIA's compiler did not check the device code: {verdict.gap}",)
    return () if nvcc.find() is not None else (nvcc.MISSING,)


def weighed(found: tuple[Finding, ...], verdict: nvcc.Verdict, request: BuildRequest) -> tuple[Finding, ...]:
    """Return the findings of g++ corrected and completed by nvcc's, with the candidate's faults first."""
    if verdict.accepted:
        device = regions.device_lines(request)
        taken = [f for f in found if f.kind == "compile-error" and _is_in(f, device)]
        return (*(f for f in found if f not in taken), *map(as_gap, taken))
    if verdict.findings:
        # A name that both compilers miss for lack of a header is a gap; other errors are the candidate's
        # fault.
        lines = {finding.location.line for finding in found if finding.location}
        more = [f for f in verdict.findings if not (f.location and f.location.line in lines)]
        return (*(f for f in found if not more or f.kind != "header-gap"), *more)
    return found


def _is_in(finding: Finding, device: frozenset[int]) -> bool:
    return finding.location is not None and finding.location.line in device


def is_gap_in_device_code(finding: Finding, request: BuildRequest) -> bool:
    """Return True for a header gap in device code, which may still run from NVIDIA's PTX."""
    return finding.kind == GAP and _is_in(finding, regions.device_lines(request))


def as_gap(finding: Finding) -> Finding:
    """Return an error of g++ in code that nvcc accepts as a gap of the emulator."""
    message = f"The emulator cannot compile this line, which NVIDIA's compiler takes: {finding.message}"
    return finding.model_copy(update={"kind": GAP, "message": message})
