"""Time limits for each command of a candidate's process, derived from the reference's own time.

A limit is a floor plus a multiple of the reference's forward time at the judged sizes. The floor covers the
loading of libraries in a first call. On a GPU, the forward time is wall-clock time after warm-up. For the
emulator, it is processor time of the reference on the CPU. The emulator's multiple is larger, since an
emulated thread with its checks takes hundreds of times as long.

No limit exceeds `--candidate-timeout`. Loading the file has a limit of its own, and constructing the module
a multiple of the time that constructing `Model` takes. Other work unrelated to the reference's time, such as
tracing by torch.compile, gets `--candidate-timeout` itself. `agent.sandbox.stopwatch` defines which seconds
count, so that a busy machine causes no timeout. A call that timed out is never retried, so a hang costs
one limit.
"""

import math
from typing import Any, NamedTuple

from agent.harness.task.job import Job

SETTING = "--candidate-timeout"
LOAD_S = 60.0
"""Seconds to import torch and the candidate's file. Builds during the import have their own limit."""
PROFILER_S = 60.0
"""Seconds added for a call under CUDA's profiler, which has to be loaded first."""
LOCATING_S = 20.0
"""Seconds for an emulated run of a kernel that hung on a GPU: the emulator detects deadlocks at once."""
GRADIENTS = 5
"""Time allowed for a forward with its backward, as a multiple of a forward's."""
TOOL = 12
"""Factor by which limits are longer under compute-sanitizer or ncu."""
CONSTRUCTED = 10
"""Time allowed to construct ModelNew, as a multiple of the time to construct Model."""
LOADED_BYTES_S = 200e6
"""Assumed minimum rate of loading parameters to the candidate's device, in bytes per second."""
SIZES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4}
"""Bytes per element of a dtype. Every other dtype counts as `LARGEST`."""
LARGEST = 16
_UNRELATED = ("operators", "traced")


class Rule(NamedTuple):
    """Rule for a call's limit: `floor_s` seconds plus `times` times the reference's forward time."""

    floor_s: float
    times: float


RULES = {"cuda": Rule(10.0, 100.0), "emulator": Rule(30.0, 2000.0)}


class Limit(NamedTuple):
    seconds: float
    reason: str
    """Origin of the limit, worded to stand in parentheses after it in a message."""


class CallLimits:
    """Time limits of one trial."""

    def __init__(self, job: Job, *, under_a_tool: bool = False) -> None:
        self._slower = TOOL if under_a_tool else 1
        floor_s, times = RULES[job.executor]
        self._rule = Rule(self._slower * floor_s, self._slower * times)
        self.most_s = job.candidate_timeout_s
        """Upper limit of every command, in seconds."""
        self._forward_s = self._construct_s = 0.0

    def learn(self, forward_s: float, construct_s: float) -> None:
        """Record the reference's forward and construction times, which count as 0 before this call."""
        self._forward_s, self._construct_s = forward_s, construct_s

    def of(self, command: dict[str, Any]) -> Limit:
        """Return the limit for one command of the worker."""
        what, part = command["do"], command.get("what")
        if part in _UNRELATED:
            return Limit(self.most_s, SETTING)
        if what == "load":
            return self._capped(self._slower * LOAD_S, "for importing the file")
        if what == "instance":
            load_s = state_bytes(command) / LOADED_BYTES_S
            return self._sum(CONSTRUCTED, self._construct_s, "constructing Model", load_s)
        extra_s = PROFILER_S if what == "profile" else 0.0
        calls = int(command.get("times", 1)) * (GRADIENTS if part == "gradients" else 1)
        return self._sum(self._rule.times * calls, self._forward_s, "the reference", extra_s)

    @property
    def call(self) -> Limit:
        """Limit for one call of forward."""
        return self.of({"do": "call"})

    def _sum(self, times: float, each_s: float, whose: str, extra_s: float = 0.0) -> Limit:
        floor_s = self._rule.floor_s + extra_s
        said = f"{floor_s:g} s and {times:g} times the {1000 * each_s:.3g} ms that {whose} takes"
        return self._capped(floor_s + times * each_s, said)

    def _capped(self, seconds: float, reason: str) -> Limit:
        return Limit(seconds, reason) if seconds < self.most_s else Limit(self.most_s, SETTING)


def state_bytes(command: dict[str, Any]) -> int:
    """Return the total bytes of the parameters in a command `instance`."""
    return sum(
        math.prod(spec["shape"]) * SIZES.get(spec["dtype"], LARGEST)
        for spec in (command.get("state") or {}).get("tensors", ())
    )


def least_s(job: Job) -> float:
    """Return the smallest limit that a call can have, in seconds."""
    return min(RULES[job.executor].floor_s, job.candidate_timeout_s)
