"""Interface between a trial and its executor, and the code that both executors share.

A backend knows what its worker needs, serves the worker's build requests, and turns a failed build into
findings. Both backends parse compiler messages with the same parser.
"""

import shutil
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agent import config
from agent.build import program
from agent.build.build_request import BuildRequest
from agent.diagnosis.build import errors as diagnosis_of_build
from agent.emulator.compile import symbolize
from agent.emulator.compile.build import Built
from agent.harness.backends import build_watch
from agent.harness.backends.gpu_lock import GpuLock
from agent.harness.backends.workspace import Furnished
from agent.harness.task import progress
from agent.harness.task.faults import Refused
from agent.harness.task.job import OUTPUT_LIMIT_BYTES, Announce, Job
from agent.harness.task.servers import COMPILING
from agent.records import Build, Finding, Status, Trace
from agent.sandbox import Box, Limits

LOG_MARGIN_BYTES = 64 << 20
WORKER_THREADS = 2
WORKER = Limits(output_bytes=OUTPUT_LIMIT_BYTES, processes=512, cpu_s=3600)
WORKER_MEMORY_BYTES = 6 << 30
BUILDING_MEMORY_BYTES = 24 << 30
"""Memory limit in bytes of a worker that runs up to MAX_JOBS nvcc at a time and has CUDA's pinned memory."""


class Replayed(NamedTuple):
    """Files for a replay of the candidate's kernels: the emulator's runtime and the built libraries."""

    runtime: Path
    libraries: list[Path]


class Backend(Furnished, Protocol):
    """Part of a trial that depends on the executor: the worker's limits, sandbox and builds."""

    compiler: str | None
    suppressor: Path | None
    """Library that suppresses kernel launches in the worker, or None on the emulator."""
    comparison: Path | None
    """Compiled kernels with which the oracle compares large outputs, or None on the emulator."""
    gpu_lock: GpuLock
    """Lock of the GPU, held by each process while it uses the GPU; builds run without the lock."""

    requests: list[BuildRequest]
    """Build requests of the worker, in order."""
    building: build_watch.Clock
    """Clock that runs while stock `load_inline` builds in the worker."""

    def settings(self) -> dict[str, Any]: ...

    def environment(self, folder: Path) -> dict[str, str]: ...

    def trusted_environment(self) -> dict[str, str]: ...

    def limits(self, trace: Trace) -> Limits: ...

    def box(self, folder: Path) -> Box: ...

    def serve(self, message: dict[str, Any]) -> dict[str, Any]: ...

    def built(self) -> Build | None: ...

    def unchecked(self) -> tuple[str, ...]: ...

    def raise_build_failure(self, error: Any = None) -> None: ...

    def raise_hidden_failure(self) -> None: ...

    def replayed(self) -> Replayed | None: ...

    def resolve(self, claims: Any) -> list[dict[str, Any]]: ...

    def locate(self, finding: Finding) -> Finding: ...


class BuildingBackend:
    """Base of both backends: keeps the builds so far and gives findings their source line."""

    def __init__(self, job: Job, announce: Announce) -> None:
        self._job = job
        self._progress = progress.as_progress(announce)
        self._cache = Path(job.cache_dir)
        self._builds: list[Built] = []
        self._looked_at = 0
        """Number of builds already checked for failures."""
        self._libraries: Path | None = None
        self.requests: list[BuildRequest] = []
        self.building = build_watch.Clock()
        self.compiler: str | None = None
        self.gpu_lock = GpuLock(None, lambda what: None)

    def trusted_environment(self) -> dict[str, str]:
        environment = config.child_environment()
        # torch.compile would compile the reference again for every candidate without a shared cache.
        kept = {"TORCHINDUCTOR_CACHE_DIR": str(self._cache / "inductor")}
        return environment | COMPILING | kept | {"PYTHONPATH": config.with_package(environment)}

    def built(self) -> Build | None:
        if not self._builds:
            return None
        # Every new instance of the model may request an identical extension under another name.
        once = {build_watch.content(r): b for r, b in zip(self.requests, self._builds, strict=True)}
        return Build(
            seconds=round(sum(built.seconds for built in self._builds), 3),
            backend=self._builds[0].backend,
            warnings=tuple(warning for built in once.values() for warning in built.warnings),
            kernels=tuple(kernel for built in once.values() for kernel in built.kernels),
            program=program.of_candidate(
                self._job.candidate.source,
                build_watch.distinct(self.requests).values(),
                [built.program for built in once.values()],
            ),
        )

    def unchecked(self) -> tuple[str, ...]:
        """Return notes for the verdict's scope on checks that the builds skipped."""
        return tuple(dict.fromkeys(note for built in self._builds for note in built.notes))

    def raise_build_failure(self, error: Any = None) -> None:
        """Raise Refused if a build since the last check failed, even if the candidate hid the failure.

        `error` is the exception that the worker reported with its answer, if any.
        """
        begin, self._looked_at = self._looked_at, len(self._builds)
        self._raise_first_failure(begin)

    def raise_hidden_failure(self) -> None:
        """Raise Refused if any build failed, even if the candidate caught the error."""
        self._raise_first_failure(0)

    def _raise_first_failure(self, begin: int) -> None:
        for request, built in zip(self.requests[begin:], self._builds[begin:], strict=True):
            if built.library is None:
                status = Status.UNSUPPORTED if built.unsupported else Status.BUILD_ERROR
                raise Refused(status, "build", diagnosis_of_build.explained(built.findings, request))

    def replayed(self) -> Replayed | None:
        """Return None: only the emulator can replay kernels without the candidate's host code."""
        return None

    def _shown(self, built: Built) -> dict[str, Any]:
        """Record a build made by the judge, and return the answer to the worker that requested it."""
        if built.library is None:
            self._builds.append(built)
            return {"error": built.log or built.findings[0].message}
        # The cache also holds builds of other candidates, so this candidate sees only a copy of its own.
        assert self._libraries is not None
        shown = self._libraries / f"{len(self._builds)}.so"
        shutil.copyfile(built.library, shown)
        self._builds.append(built.model_copy(update={"library": shown}))
        return {"library": str(shown)}

    def resolve(self, claims: Any) -> list[dict[str, Any]]:
        """Return the worker's claims about kernels, with source lines that only the builder knows."""
        libraries = [built.library for built in self._builds if built.library is not None]
        return symbolize.resolve(claims, libraries)

    def locate(self, finding: Finding) -> Finding:
        """Add the text of the source line to a finding that has only the line number."""
        place, lines = finding.location, self._job.candidate.source.splitlines()
        if place is None or place.line is None or place.text is not None:
            return finding
        if not 0 < place.line <= len(lines):
            return finding
        text = lines[place.line - 1].strip()
        return finding.model_copy(update={"location": place.model_copy(update={"text": text})})
