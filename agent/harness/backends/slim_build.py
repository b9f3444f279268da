"""Fast builds for a GPU by the judge; doubtful requests are left to stock `load_inline` in the worker."""

from pathlib import Path

from agent import gpu_build
from agent.build.build_request import BuildRequest
from agent.build.outcome import Built
from agent.gpu_build import Doubt, Gpu, GpuToolchain, Unavailable
from agent.harness.task.job import BUILD_LIMIT_S, Announce, Job, preparing


class SlimBuilds:
    """Fast builds of one job; without a toolchain, every request is left to stock `load_inline`."""

    def __init__(self, job: Job, gpu: Gpu | None, announce: Announce) -> None:
        self._cache = Path(job.cache_dir)
        self._lines = job.lines
        self._gpu = gpu
        self._toolchain: GpuToolchain | None = None
        self.note: str | None = None
        """Reason why stock `load_inline` had to build the last request, worded for the scope."""
        if job.build == "load_inline":
            return
        if gpu is None:
            self._leave("the GPUs here cannot be told, or differ")
            return
        try:
            self._toolchain = gpu_build.prepare(self._cache, preparing(announce))
        except Unavailable as error:
            self._leave(str(error))

    @property
    def offered(self) -> bool:
        """Return True if the worker should ask the judge for fast builds."""
        return self._toolchain is not None

    def built(self, request: BuildRequest) -> Built | None:
        """Return the build, or None if only stock `load_inline` can decide what the request gives."""
        if self._toolchain is None or self._gpu is None:
            return None
        self.note = None
        if self._lines:
            flags = (*request.extra_cuda_cflags, "-lineinfo")
            request = request.model_copy(update={"extra_cuda_cflags": flags})
        try:
            return gpu_build.extension(
                self._toolchain, request, self._gpu, self._cache / "builds", BUILD_LIMIT_S / 2
            )
        except Doubt as doubt:
            self._leave(str(doubt))
            return None

    def _leave(self, reason: str) -> None:
        self.note = f"a fast build: stock load_inline built this, because {reason}"
