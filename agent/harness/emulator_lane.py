"""The emulator's lane: the judge builds, and the worker runs what was built on the CPU."""

from pathlib import Path
from typing import Any

from agent import config
from agent.emulator import build, toolchain
from agent.emulator.units import BuildRequest
from agent.harness.job import BUILD_LIMIT_S, Announce, Job, preparing
from agent.harness.lane import (
    LOG_MARGIN_BYTES,
    MAX_BUILDS,
    TOO_MANY,
    WORKER,
    WORKER_MEMORY_BYTES,
    WORKER_THREADS,
    BuildingLane,
    Replayed,
)
from agent.harness.workspace import library_folder, most_bytes, output_bytes
from agent.records import Trace
from agent.sandbox import Box, Limits


class EmulatorLane(BuildingLane):
    """Builds requested by the worker run here, in the judge, with a content-keyed cache."""

    device = "cpu"
    suppressor: Path | None = None
    builds_in_worker = False
    with_guest = True

    def __init__(self, job: Job, announce: Announce) -> None:
        super().__init__(job)
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
        if len(self._builds) >= MAX_BUILDS:
            return TOO_MANY
        try:
            request = BuildRequest(candidate_source=self._job.candidate.source, **message["build"])
        except (TypeError, ValueError) as error:
            return {"error": f"load_inline was called with arguments that cannot be used: {error}"}
        self.requests.append(request)
        built = build.extension(
            self._toolchain, request, self._cache / "builds", BUILD_LIMIT_S, self._preparing
        )
        return self._shown(built)
