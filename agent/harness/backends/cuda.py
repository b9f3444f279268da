"""Backend of a GPU: fast builds by the judge, or stock `load_inline` in the worker."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agent import config
from agent.build import refusals
from agent.build.build_request import BuildRequest
from agent.build.outcome import Built
from agent.gpu_build import gpu
from agent.harness.backends import (
    build_watch,
    comparison_kernels,
    gpu_lock,
    launch_suppression,
    load_inline_build,
)
from agent.harness.backends.backend import (
    BUILDING_MEMORY_BYTES,
    LOG_MARGIN_BYTES,
    WORKER,
    BuildingBackend,
)
from agent.harness.backends.slim_build import SlimBuilds
from agent.harness.backends.workspace import library_folder, most_bytes, output_bytes
from agent.harness.task.job import Announce, Job
from agent.records import Build, Trace
from agent.sandbox import Box, Limits


class CudaBackend(BuildingBackend):
    """Backend whose worker first asks the judge for a fast build.

    Where the judge declines, stock `load_inline` runs in the worker and reports each request and its outcome.
    """

    device = "cuda"

    def __init__(self, job: Job, announce: Announce) -> None:
        super().__init__(job, announce)
        self._named = ExitStack()
        """Contexts open while the worker builds: the progress message, and the released GPU lock."""
        self.compiler = load_inline_build.nvcc_version(config.child_environment())
        self._gpu = gpu.present()
        begun_ns = gpu_lock.yielding(job.begun_ns) if job.confirms else job.begun_ns
        self.gpu_lock = gpu_lock.of_gpu(self._cache, config.child_environment(), self._progress, begun_ns)
        self.suppressor = launch_suppression.library(self._cache)
        self.comparison = comparison_kernels.compiled(self._cache, self._gpu)
        self._slim = SlimBuilds(job, self._gpu, announce)
        self.with_torch_shim = self._slim.offered

    def settings(self) -> dict[str, Any]:
        return {"torch_threads": 4, "slim": self._slim.offered}

    def environment(self, folder: Path) -> dict[str, str]:
        return config.candidate_environment() | {
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
            "MAX_JOBS": "4",
            # The parser of compiler messages expects English with plain quotes.
            "LC_ALL": "C",
            # torch also compiles PTX for future GPUs if no architecture is named.
            **({"TORCH_CUDA_ARCH_LIST": self._gpu.capability} if self._gpu else {}),
            **launch_suppression.preloaded(self.suppressor),
        }

    def limits(self, trace: Trace) -> Limits:
        return WORKER._replace(
            # nvcc's intermediate files of one translation unit stay far below 2 GiB.
            file_bytes=max(output_bytes(trace), 2 << 30) + LOG_MARGIN_BYTES,
            memory_bytes=BUILDING_MEMORY_BYTES + 4 * trace.min_bytes,
            disk_bytes=most_bytes(trace),
            private_bytes=4 << 30,
            processes=4096,
        )

    def box(self, folder: Path) -> Box:
        self._libraries = library_folder(folder)
        own = (self.suppressor,) if self.suppressor else ()
        sees = (*load_inline_build.compilers(config.child_environment()), self._libraries, *own)
        return Box(folder, sees=sees, python=True, gpu=True)

    def serve(self, message: dict[str, Any]) -> dict[str, Any]:
        report = dict(message.get("build") or {})
        if report.pop("begins", False):
            return self._begin(report)
        if "seconds" not in report:
            return self._offer(report)
        self.building.end()
        self._named.close()
        seconds, log = report.pop("seconds", 0.0), report.pop("log", None)
        try:
            request = load_inline_build.asked(report, self._job.candidate.source)
        except (TypeError, ValueError):
            request = BuildRequest(candidate_source=self._job.candidate.source, name="", cpp_sources=())
        self.requests.append(request)
        refused = refusals.of_request(request)
        if refused:
            self._builds.append(
                Built(library=None, seconds=0, backend=load_inline_build.BACKEND, findings=refused)
            )
            return {}
        made = load_inline_build.built(request, float(seconds), log)
        note = self._slim.note
        self._builds.append(made.model_copy(update={"notes": (note,) if note else ()}))
        return {}

    def _begin(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Note that stock `load_inline` begins to build, or return an error that refuses the build."""
        try:
            request = load_inline_build.asked(asked, self._job.candidate.source)
        except (TypeError, ValueError):
            request = None
        if request is not None:
            if build_watch.too_many(self.requests, request):
                return build_watch.TOO_MANY
            self._screened(request)
            refused = refusals.of_request(request)
            if refused:
                self.requests.append(request)
                self._builds.append(
                    Built(library=None, seconds=0, backend=load_inline_build.BACKEND, findings=refused)
                )
                return {"error": refused[0].message}
        self._named.close()
        self._named.enter_context(self.gpu_lock.apart())
        self._named.enter_context(self._progress.during("building"))
        self.building.begin()
        return {}

    def _screened(self, request: BuildRequest) -> None:
        if self._job.screened:
            build_watch.screened(request, self._job.candidate, self._job.library_ops)

    def _offer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return a built library or an error, or an empty answer if stock `load_inline` has to build."""
        try:
            request = load_inline_build.asked(asked, self._job.candidate.source)
        except (TypeError, ValueError):
            return {}
        if build_watch.too_many(self.requests, request):
            return build_watch.TOO_MANY
        self._screened(request)
        refused = refusals.of_request(request)
        if refused:
            self.requests.append(request)
            self._builds.append(Built(library=None, seconds=0, findings=refused))
            return {"error": refused[0].message}
        with self.gpu_lock.apart(), self._progress.during("building"):
            built = self._slim.built(request)
        if built is None:
            return {}
        self.requests.append(request)
        return self._shown(built)

    def built(self) -> Build | None:
        """Return the builds, with the first look's kernel resources if stock `load_inline` built them.

        Stock `load_inline` hides ptxas's report, but the first look compiled these sources with this nvcc.
        """
        found = super().built()
        if found is None or found.kernels or found.backend != load_inline_build.BACKEND:
            return found
        return found.model_copy(update={"kernels": self._job.kernels})

    def raise_build_failure(self, error: Any = None) -> None:
        # A candidate may catch the error of a failed build, but not use a build that is refused here.
        new = self._builds[self._looked_at :]
        refused = any(built.library is None and not built.log for built in new)
        failed = error is not None and bool(new) and new[-1].library is None
        if refused or failed:
            super().raise_build_failure(error)
        self._looked_at = len(self._builds)
        if error is not None and _is_of_a_missing_extension(error):
            self.raise_hidden_failure()


def _is_of_a_missing_extension(error: Any) -> bool:
    """Return True if an exception may come from a missing extension, whose build error was caught."""
    claim = error if isinstance(error, Mapping) else {}
    return claim.get("type") == "NameError" or "NoneType" in str(claim.get("message"))
