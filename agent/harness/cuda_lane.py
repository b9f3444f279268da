"""The lane of a GPU: fast builds by the judge, or stock `load_inline` in the worker."""

from pathlib import Path
from typing import Any

from agent import config
from agent.emulator import refusals
from agent.emulator.built import Built
from agent.emulator.units import BuildRequest
from agent.gpu_build import gpu
from agent.harness import own_work, stock, turn
from agent.harness.fast import FastBuilds
from agent.harness.job import Announce, Job
from agent.harness.lane import (
    BUILDING_MEMORY_BYTES,
    LOG_MARGIN_BYTES,
    MAX_BUILDS,
    TOO_MANY,
    WORKER,
    BuildingLane,
)
from agent.harness.workspace import library_folder, most_bytes, output_bytes
from agent.records import Trace
from agent.sandbox import Box, Limits


class CudaLane(BuildingLane):
    """The worker asks for a fast build first. Where there is none stock `load_inline` runs in the worker, and
    the judge hears what was asked and what came of it.
    """

    device = "cuda"
    builds_in_worker = True

    def __init__(self, job: Job, announce: Announce) -> None:
        super().__init__(job)
        self.compiler = stock.nvcc_version(config.child_environment())
        self._gpu = gpu.present()
        self.turn = turn.of_gpu(self._cache, config.child_environment(), announce)
        self.suppressor = own_work.library(self._cache)
        self._fast = FastBuilds(job, self._gpu, announce)
        self.with_guest = self._fast.offered

    def settings(self) -> dict[str, Any]:
        return {"torch_threads": 4, "fast": self._fast.offered}

    def environment(self, folder: Path) -> dict[str, str]:
        return config.candidate_environment() | {
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
            "MAX_JOBS": "4",
            # The compilers' messages are read: they have to be in English, with plain quotes.
            "LC_ALL": "C",
            # Without it torch adds the intermediate code for GPUs to come.
            **({"TORCH_CUDA_ARCH_LIST": self._gpu.capability} if self._gpu else {}),
            **({"LD_PRELOAD": str(self.suppressor)} if self.suppressor else {}),
        }

    def limits(self, trace: Trace) -> Limits:
        return WORKER._replace(
            # nvcc's intermediates of one translation unit stay far below this.
            file_bytes=max(output_bytes(trace), 2 << 30) + LOG_MARGIN_BYTES,
            memory_bytes=BUILDING_MEMORY_BYTES + 4 * trace.min_bytes,
            disk_bytes=most_bytes(trace),
            private_bytes=4 << 30,
            processes=4096,
        )

    def box(self, folder: Path) -> Box:
        self._libraries = library_folder(folder)
        own = (self.suppressor,) if self.suppressor else ()
        sees = (*stock.compilers(config.child_environment()), self._libraries, *own)
        return Box(folder, sees=sees, python=True, gpu=True)

    def serve(self, message: dict[str, Any]) -> dict[str, Any]:
        report = dict(message.get("build") or {})
        if "seconds" not in report:
            return self._offer(report)
        seconds, log = report.pop("seconds", 0.0), report.pop("log", None)
        try:
            request = stock.asked(report, self._job.candidate.source)
        except (TypeError, ValueError):
            request = BuildRequest(candidate_source=self._job.candidate.source, name="", cpp_sources=())
        self.requests.append(request)
        refused = refusals.of_request(request)
        if refused:
            self._builds.append(Built(library=None, seconds=0, lane=stock.LANE, findings=refused))
            return {}
        made = stock.built(request, float(seconds), log)
        note = self._fast.note
        self._builds.append(made.model_copy(update={"notes": (note,) if note else ()}))
        return {}

    def _offer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A library, or what is wrong; nothing where the worker has to build by itself."""
        if len(self._builds) >= MAX_BUILDS:
            return TOO_MANY
        try:
            request = stock.asked(asked, self._job.candidate.source)
        except (TypeError, ValueError):
            return {}
        refused = refusals.of_request(request)
        if refused:
            self.requests.append(request)
            self._builds.append(Built(library=None, seconds=0, findings=refused))
            return {"error": refused[0].message}
        with self.turn.apart():
            built = self._fast.built(request)
        if built is None:
            return {}
        self.requests.append(request)
        return self._shown(built)

    def raise_build_failure(self, error: Any = None) -> None:
        # A candidate may catch the error of a build, not what is never built here.
        refused = any(built.library is None and not built.log for built in self._builds)
        failed = error is not None and bool(self._builds) and self._builds[-1].library is None
        if refused or failed:
            super().raise_build_failure(error)
