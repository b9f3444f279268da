"""How each executor builds: in the judge, and for CUDA also by stock `load_inline` in the worker.

A lane knows what its worker needs, serves the build requests of the worker, and turns a failed build
into findings. Both lanes read the compiler's words with the same parser.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from agent import config
from agent.emulator import build, places, toolchain
from agent.emulator.build import Built
from agent.emulator.units import BuildRequest
from agent.gpu_build import gpu
from agent.harness import stock
from agent.harness.fast import FastBuilds
from agent.harness.faults import Refused
from agent.harness.job import BUILD_LIMIT_S, OUTPUT_LIMIT_BYTES, Announce, Job
from agent.harness.workspace import library_folder, most_bytes, output_bytes
from agent.records import Build, Finding, Status, Trace
from agent.sandbox import Box, Child, Limits

LOG_MARGIN_BYTES = 64 << 20
WORKER_THREADS = 2
WORKER = Limits(output_bytes=OUTPUT_LIMIT_BYTES, processes=512, cpu_s=3600)
WORKER_MEMORY_BYTES = 6 << 30
BUILDING_MEMORY_BYTES = 24 << 30
"""Where nvcc runs in the worker, MAX_JOBS at a time, beside CUDA's own pinned memory."""
MAX_BUILDS = 16
TOO_MANY = {"error": f"a candidate may build {MAX_BUILDS} extensions, not more"}
"""Building does not count against the candidate's time, so its number has to be bounded."""


class Replayed(NamedTuple):
    """What a replay of the candidate's kernels runs on."""

    runtime: Path
    libraries: list[Path]


class Lane(Protocol):
    """What a trial needs to know about the executor it runs on."""

    device: str
    compiler: str | None
    builds_in_worker: bool
    with_guest: bool
    """Whether the worker's folder holds the package `guest`."""

    requests: list[BuildRequest]
    """What the worker asked to have built, in that order."""

    def settings(self) -> dict[str, Any]: ...

    def environment(self, folder: Path) -> dict[str, str]: ...

    def trusted_environment(self) -> dict[str, str]: ...

    def limits(self, trace: Trace) -> Limits: ...

    def box(self, folder: Path) -> Box: ...

    def serve(self, message: dict[str, Any]) -> dict[str, Any]: ...

    def built(self) -> Build | None: ...

    def unchecked(self) -> tuple[str, ...]: ...

    def raise_build_failure(self, error: Any = None) -> None: ...

    def replayed(self) -> Replayed | None: ...

    def resolve(self, claims: Any) -> list[dict[str, Any]]: ...

    def locate(self, finding: Finding) -> Finding: ...


def lane_for(job: Job, announce: Announce) -> Lane:
    """The lane of the job's executor. Raises EnvironmentFault when its tools are missing."""
    return CudaLane(job, announce) if job.executor == "cuda" else EmulatorLane(job, announce)


def worker(lane: Lane, job: Job, folder: Path, trace: Trace) -> Child:
    """Starts a process for the candidate's file in its workspace."""
    return Child(
        [sys.executable, "-I", "worker.py", job.executor, json.dumps(lane.settings())],
        cwd=folder,
        env=lane.environment(folder),
        box=lane.box(folder),
        limits=lane.limits(trace),
    )


class _Lane:
    """What both lanes share: the builds seen so far and how findings get their line."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._builds: list[Built] = []
        self._libraries: Path | None = None
        self.requests: list[BuildRequest] = []
        self.compiler: str | None = None

    def trusted_environment(self) -> dict[str, str]:
        environment = config.child_environment()
        return environment | {"PYTHONPATH": config.with_package(environment)}

    def built(self) -> Build | None:
        if not self._builds:
            return None
        return Build(
            seconds=round(sum(built.seconds for built in self._builds), 3),
            lane=self._builds[0].lane,
            warnings=tuple(warning for built in self._builds for warning in built.warnings),
            kernels=tuple(kernel for built in self._builds for kernel in built.kernels),
        )

    def unchecked(self) -> tuple[str, ...]:
        """What the builds did not check, for the scope of the verdict."""
        return tuple(dict.fromkeys(note for built in self._builds for note in built.notes))

    def raise_build_failure(self, error: Any = None) -> None:
        """Raises Refused when a requested build failed, whether or not the candidate hid that."""
        for built in self._builds:
            if built.library is None:
                status = Status.UNSUPPORTED if built.unsupported else Status.BUILD_ERROR
                raise Refused(status, "build", built.findings)

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
        return places.resolve(claims, libraries)

    def locate(self, finding: Finding) -> Finding:
        """Adds the text of the line to a finding that knows only its number."""
        place, lines = finding.location, self._job.candidate.source.splitlines()
        if place is None or place.line is None or place.text is not None or place.line > len(lines):
            return finding
        text = lines[place.line - 1].strip()
        return finding.model_copy(update={"location": place.model_copy(update={"text": text})})


class EmulatorLane(_Lane):
    """Builds requested by the worker run here, in the judge, with a content-keyed cache."""

    device = "cpu"
    builds_in_worker = False
    with_guest = True

    def __init__(self, job: Job, announce: Announce) -> None:
        super().__init__(job)
        self._announce = announce
        self._cache = Path(job.cache_dir)
        self._toolchain = toolchain.prepare(self._cache)
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

    def _preparing(self, step: str, number: int, steps: int) -> None:
        self._announce(f"preparing {step} ({number} of {steps}, once)")


class CudaLane(_Lane):
    """The worker asks for a fast build first. Where there is none stock `load_inline` runs in the worker, and
    the judge hears what was asked and what came of it.
    """

    device = "cuda"
    builds_in_worker = True

    def __init__(self, job: Job, announce: Announce) -> None:
        super().__init__(job)
        self.compiler = stock.nvcc_version(config.child_environment())
        self._gpu = gpu.present()
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
        sees = (*stock.compilers(config.child_environment()), self._libraries)
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
        built = self._fast.built(request)
        if built is None:
            return {}
        self.requests.append(request)
        return self._shown(built)

    def raise_build_failure(self, error: Any = None) -> None:
        if error is not None and self._builds and self._builds[-1].library is None:
            super().raise_build_failure(error)
