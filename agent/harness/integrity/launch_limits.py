"""Check for launches that the emulator runs but no GPU starts, because a block exceeds a GPU's resources.

The check compares a launch with ptxas's report on its kernel. It covers registers, in the allocation units of
sm_90, static plus dynamic shared memory, and threads beyond `__launch_bounds__`. If several kernels have the
launch's name, the one that needs least counts. Kernels without a report are not judged.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from agent.build.build_request import BuildRequest
from agent.build.logical_text import logical
from agent.harness.task.faults import Refused
from agent.records import Finding, KernelResources, Location, Status
from agent.torch_shim.c_abi import UNLOCATED_LINE
from agent.torch_shim.finding_kinds import FindingKind

NEVER_STARTED = FindingKind.ILLEGAL_LAUNCH
REGISTERS, PARTS = 65_536, 4
"""Registers of a multiprocessor, and number of its partitions.

A warp's registers come from one partition, in multiples of `UNIT`.
"""
UNIT = 256
WARP = 32
MOST_KERNELS = 256
MOST_SHARED, DEFAULT_SHARED = 232_448, 49_152
_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:<|\(|$)")
_BOUNDED = re.compile(
    r"__global__\s+(?:void\s+)?__launch_bounds__\s*\(\s*(\d{1,6})\s*(?:,[^();]*)?\)\s*(?:void\s+)?(\w+)\s*\("
)
_KERNEL = re.compile(r"__global__[^;{}]*?\b(\w+)\s*\([^()]*\)\s*[;{]")
_ASKS = re.compile(r"MaxDynamicSharedMemorySize|FuncSetAttribute|MAX_DYNAMIC_SHARED_SIZE", re.IGNORECASE)


class Launched(NamedTuple):
    """One launch: threads in a block, and dynamic shared memory of a block in bytes (`shared`)."""

    name: str
    threads: int
    shared: int
    line: int | None = None


class Limits:
    """Resource limits of a candidate's kernels on a GPU."""

    def __init__(self, kernels: Iterable[KernelResources], requests: Iterable[BuildRequest]) -> None:
        self._known: dict[str, list[KernelResources]] = {}
        for kernel in kernels:
            self._known.setdefault(_base(kernel.name), []).append(kernel)
        requests = list(requests)
        texts = [logical(text).code for request in requests for text in (request.cuda, request.cpp)]
        self._asks = any(map(_ASKS.search, texts))
        """True if the host may have raised the limit of dynamic shared memory."""
        bounded = [(name, int(threads)) for text in texts for threads, name in _BOUNDED.findall(text)]
        defined = [name for text in texts for name in _KERNEL.findall(text)]
        self._bounds = {
            name: max(threads for other, threads in bounded if other == name)
            for name, _ in bounded
            if defined.count(name) <= sum(other == name for other, _ in bounded)
        }

    def refused(self, launches: Iterable[Launched]) -> list[Finding]:
        """Return one finding for each kernel with a launch that cannot start."""
        found: dict[str, Finding] = {}
        for launch in launches:
            name = _base(launch.name)
            why = self._why(name, launch) if name and name not in found else None
            if why is not None:
                place = Location(line=launch.line, kernel=name)
                message = f"`{name}` is never launched on a GPU: {why}."
                found[name] = Finding(kind=NEVER_STARTED, message=message, location=place)
        return list(found.values())

    def _why(self, name: str, launch: Launched) -> str | None:
        threads = launch.threads
        bound = self._bounds.get(name)
        if bound is not None and threads > bound:
            return f"a block of {threads} threads > the {bound} of its __launch_bounds__"
        known = self._known.get(name, [])
        registers = _least(known, lambda kernel: kernel.registers)
        if registers and threads > (most := most_threads(registers)):
            return (
                f"a block of {threads} threads with {registers} registers each takes more than the "
                f"{REGISTERS} there are (cudaErrorLaunchOutOfResources: too many resources requested for "
                f"launch). At most {most} threads fit; or declare __launch_bounds__({threads}), and the "
                "compiler takes fewer"
            )
        static = _least(known, lambda kernel: kernel.shared_bytes)
        limit = MOST_SHARED if self._asks else DEFAULT_SHARED
        if static and launch.shared and static + launch.shared > limit:
            raised = "" if self._asks else " (cudaFuncSetAttribute raises the limit)"
            return (
                f"{static} bytes of static and {launch.shared} of dynamic shared memory are together more "
                f"than {limit}{raised}"
            )
        return None


def most_threads(registers: int) -> int:
    """Return the maximum number of threads in a block whose threads have `registers` registers each."""
    of_warp = -(-registers * WARP // UNIT) * UNIT
    return PARTS * (REGISTERS // PARTS // of_warp) * WARP


def recorded(steps: Iterable[list[Any]]) -> list[Launched]:
    """Return the launches among the steps of a replay."""
    launches = [step[1] for step in steps if step[0] == "launch"]
    return [
        Launched(event["name"], math.prod(event["block"]), event["shared"], event["line"] or None)
        for event in launches
    ]


def claimed(answer: dict[str, Any]) -> list[Launched]:
    """Return the launches that the candidate's process reports for all calls, without malformed entries."""
    told = answer.get("kernels")
    found = []
    for entry in told[:MOST_KERNELS] if isinstance(told, list) else []:
        given = entry if isinstance(entry, dict) else {}
        name, *numbers = (given.get(key) for key in ("kernel", "threads", "shared", "line"))
        threads, shared, line = (number if type(number) is int else -1 for number in numbers)
        if isinstance(name, str) and min(threads, shared) >= 0:
            found.append(Launched(name, threads, shared, line if 0 < line < UNLOCATED_LINE else None))
    return found


def require_startable(answer: dict[str, Any], limits: Limits, locate: Callable[[Finding], Finding]) -> None:
    """Raise Refused if any call has a launch that no GPU starts.

    The launches are those that the worker reports in `answer`, as a replay shows those of one call only.
    """
    found = limits.refused(claimed(answer))
    if found:
        raise Refused(Status.RUNTIME_ERROR, "run", list(map(locate, found)))


def _base(name: str) -> str:
    """Return a kernel's base name: `scan` for `scan<float, 4>` and for `void ns::scan(const float*)`."""
    found = _NAME.search(name[:2000])
    return found[1] if found else ""


def _least(kernels: Sequence[KernelResources], of: Callable[[KernelResources], int | None]) -> int:
    return min((of(kernel) or 0 for kernel in kernels), default=0)
