"""Backend of the emulator: the judge builds, and the worker runs the result on the CPU."""

from pathlib import Path
from typing import Any

from agent import config
from agent.build.build_request import BuildRequest
from agent.emulator.compile import build, toolchain
from agent.harness.backends import build_watch
from agent.harness.backends.backend import (
    LOG_MARGIN_BYTES,
    WORKER,
    WORKER_MEMORY_BYTES,
    WORKER_THREADS,
    BuildingBackend,
    Replayed,
)
from agent.harness.backends.workspace import library_folder, most_bytes, output_bytes
from agent.harness.task.job import BUILD_LIMIT_S, Announce, Job, preparing
from agent.records import Trace
from agent.sandbox import Box, Limits


class EmulatorBackend(BuildingBackend):
    """Backend whose judge serves the worker's build requests, with a cache keyed by the sources."""

    device = "cpu"
    suppressor: Path | None = None
    comparison: Path | None = None
    with_torch_shim = True

    def __init__(self, job: Job, announce: Announce) -> None:
        super().__init__(job, announce)
        self._preparing = preparing(announce)
        self._toolchain = toolchain.prepare(self._cache, progress=self._preparing)
        self.compiler = f"g++ {self._toolchain.gxx_version}"

    def settings(self) -> dict[str, Any]:
        return {"runtime": str(self._toolchain.runtime), "threads": WORKER_THREADS}

    def environment(self, folder: Path) -> dict[str, str]:
        return config.candidate_environment() | {"HOME": str(folder), "TMPDIR": str(folder)}

    def limits(self, trace: Trace) -> Limits:
        return WORKER._replace(
            file_bytes=output_bytes(trace) + LOG_MARGIN_BYTES,
            memory_bytes=WORKER_MEMORY_BYTES + 8 * trace.min_bytes,
            disk_bytes=most_bytes(trace),
        )

    def box(self, folder: Path) -> Box:
        self._libraries = library_folder(folder)
        return Box(folder, sees=(self._toolchain.directory, self._libraries), python=True)

    def replayed(self) -> Replayed:
        libraries = [built.library for built in self._builds if built.library is not None]
        return Replayed(self._toolchain.runtime, libraries)

    def serve(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            request = BuildRequest(candidate_source=self._job.candidate.source, **message["build"])
        except (TypeError, ValueError) as error:
            return {"error": f"load_inline was called with arguments that cannot be used: {error}"}
        if build_watch.too_many(self.requests, request):
            return build_watch.TOO_MANY
        if self._job.screened:
            build_watch.screened(request, self._job.candidate, self._job.library_ops)
        with self._progress.during("building"):
            built = build.extension(
                self._toolchain, request, self._cache / "builds", BUILD_LIMIT_S, self._preparing
            )
        self.requests.append(request)
        return self._shown(built)
