"""What a trial needs to know about the executor it runs on, and what both executors share.

A backend knows what its worker needs, serves the build requests of the worker, and turns a failed build
into findings. Both backends read the compiler's words with the same parser.
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
"""Where nvcc runs in the worker, MAX_JOBS at a time, beside CUDA's own pinned memory."""


class Replayed(NamedTuple):
    """What a replay of the candidate's kernels runs on."""

    runtime: Path
    libraries: list[Path]


class Backend(Furnished, Protocol):
    """What a trial needs to know about the executor it runs on."""

    compiler: str | None
    suppressor: Path | None
    """What leaves out launches in the worker; only on a GPU."""
    comparison: Path | None
    """What compares large outputs there, for the oracle."""
    gpu_lock: GpuLock
    """On the GPU, held by whoever uses it; builds take place apart from it."""

    requests: list[BuildRequest]
    """What the worker asked to have built, in that order."""
    building: build_watch.Clock
    """Runs while the worker builds by itself."""

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
    """What both backends share: the builds seen so far and how findings get their line."""

    def __init__(self, job: Job, announce: Announce) -> None:
        self._job = job
        self._progress = progress.of(announce)
        self._cache = Path(job.cache_dir)
        self._builds: list[Built] = []
        self._looked_at = 0
        """How many of the builds have been looked at for failures."""
        self._libraries: Path | None = None
        self.requests: list[BuildRequest] = []
        self.building = build_watch.Clock()
        self.compiler: str | None = None
        self.gpu_lock = GpuLock(None, lambda what: None)

    def trusted_environment(self) -> dict[str, str]:
        environment = config.child_environment()
        # torch.compile of the reference takes as long again for every candidate where nothing is kept.
        kept = {"TORCHINDUCTOR_CACHE_DIR": str(self._cache / "inductor")}
        return environment | COMPILING | kept | {"PYTHONPATH": config.with_package(environment)}

    def built(self) -> Build | None:
        if not self._builds:
            return None
        # Every new instance may ask for the same again, under another name.
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
        """What the builds did not check, for the scope of the verdict."""
        return tuple(dict.fromkeys(note for built in self._builds for note in built.notes))

    def raise_build_failure(self, error: Any = None) -> None:
        """Raises Refused when a build requested since the last look failed, whether or not the candidate
        hid that; `error` is what the candidate's process raised meanwhile.
        """
        begin, self._looked_at = self._looked_at, len(self._builds)
        self._raise_first_failure(begin)

    def raise_hidden_failure(self) -> None:
        """Raises Refused when any build failed, for a verdict that follows from its failure."""
        self._raise_first_failure(0)

    def _raise_first_failure(self, begin: int) -> None:
        for request, built in zip(self.requests[begin:], self._builds[begin:], strict=True):
            if built.library is None:
                status = Status.UNSUPPORTED if built.unsupported else Status.BUILD_ERROR
                raise Refused(status, "build", diagnosis_of_build.explained(built.findings, request))

    def replayed(self) -> Replayed | None:
        """None where kernels cannot be repeated without the candidate's host code."""
        return None

    def _shown(self, built: Built) -> dict[str, Any]:
        """The answer to a request of the worker's that was built here."""
        if built.library is None:
            self._builds.append(built)
            return {"error": built.log or built.findings[0].message}
        # The cache holds what others built too: the candidate sees a copy of its own.
        assert self._libraries is not None
        shown = self._libraries / f"{len(self._builds)}.so"
        shutil.copyfile(built.library, shown)
        self._builds.append(built.model_copy(update={"library": shown}))
        return {"library": str(shown)}

    def resolve(self, claims: Any) -> list[dict[str, Any]]:
        """What the worker says about kernels, with the lines that only the builder can tell."""
        libraries = [built.library for built in self._builds if built.library is not None]
        return symbolize.resolve(claims, libraries)

    def locate(self, finding: Finding) -> Finding:
        """Adds the text of the line to a finding that knows only its number."""
        place, lines = finding.location, self._job.candidate.source.splitlines()
        if place is None or place.line is None or place.text is not None:
            return finding
        if not 0 < place.line <= len(lines):
            return finding
        text = lines[place.line - 1].strip()
        return finding.model_copy(update={"location": place.model_copy(update={"text": text})})
