"""Backends and worker processes of each executor: the emulator and the GPU."""

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent.harness.backends.backend import Backend
from agent.harness.backends.cuda import CudaBackend
from agent.harness.backends.emulator import EmulatorBackend
from agent.harness.task import call_limits
from agent.harness.task.job import Announce, Job
from agent.records import Trace
from agent.sandbox import Box, Child

Passed = tuple[int, ...]
TOOL_LOG_BYTES = 12 << 20
"""Maximum bytes kept of a tool's output: Nsight Compute prints a line per instruction of a kernel."""


def backend_for(job: Job, announce: Announce) -> Backend:
    """Return the backend of the job's executor. Raises EnvironmentFault if its tools are missing."""
    return CudaBackend(job, announce) if job.executor == "cuda" else EmulatorBackend(job, announce)


@contextmanager
def joined(backend: Backend, workers: int) -> Iterator[tuple[Passed, list[Passed]]]:
    """Open the sockets by which oracle and workers share GPU memory, and yield their descriptors.

    The emulator shares tensors in files, so its descriptors are empty.
    """
    if backend.device != "cuda":
        yield (), [()] * workers
        return
    with ExitStack() as stack:
        pairs = [[stack.enter_context(end) for end in socket.socketpair()] for _ in range(workers)]
        yield tuple(mine.fileno() for mine, _ in pairs), [(theirs.fileno(),) for _, theirs in pairs]


def named(passed: Passed) -> str:
    """Return the descriptors' numbers as a command-line argument."""
    return ",".join(map(str, passed)) or "-"


def worker(
    backend: Backend, job: Job, folder: Path, trace: Trace, passed: Passed = (), tool: tuple[str, ...] = ()
) -> Child:
    """Start a worker process for the candidate's file in `folder`.

    Under a `tool` such as compute-sanitizer, each tensor gets its own allocation. The tool then knows where
    each tensor ends.
    """
    ours = {"shared": named(passed), "private": bool(tool), "patience_s": call_limits.least_s(job)}
    settings = backend.settings() | ours
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"} if tool else {}
    limits = backend.limits(trace)
    return Child(
        [*tool, sys.executable, "-I", "worker.py", job.executor, json.dumps(settings)],
        passed=passed,
        env=backend.environment(folder) | environment,
        box=with_tool(backend.box(folder), tool),
        limits=limits._replace(kept_bytes=TOOL_LOG_BYTES) if tool else limits,
        server=None if tool else job.servers.for_candidates(job.executor),
    )


def with_tool(box: Box, tool: tuple[str, ...]) -> Box:
    """Return the sandbox with the tool's installation visible as well."""
    if not tool:
        return box
    command = Path(tool[0])
    home = command.resolve().parents[1]
    # The ncu beside nvcc is a script that looks for the real binary in these places.
    parts = (*home.glob("nsight-compute*"), *Path("/opt/nvidia").glob("nsight-compute"))
    return box._replace(sees=(*box.sees, command.parent, command.resolve().parent, *parts))
