"""How long each command of a candidate's process may take: what the reference's own time justifies.

A limit is a floor, which covers what a first call has to load, and a multiple of what the reference's forward
takes at the sizes that are judged: on a GPU by the clock, there and warm; for the emulator by processor time
on this CPU. An emulated thread with its checks costs hundreds of times what it stands for, hence the multiple
there. No limit exceeds `--candidate-timeout`, and what is not the reference's work at all, as tracing by
torch.compile, has that one. Which seconds count is in `agent.sandbox.stopwatch`: a busy machine makes no
timeout. A hang costs one limit, since nothing that ran out of time is tried again.
"""

import math
from typing import Any, NamedTuple

from agent.harness.task.job import Job

SETTING = "--candidate-timeout"
LOAD_S = 60.0
"""Importing the file, and torch before it; what is built on the way has a limit of its own."""
PROFILER_S = 60.0
"""Added for a call under CUDA's profiler, which has to be loaded first."""
LOCATING_S = 20.0
"""For an emulated run of a kernel that hung on a GPU: a deadlock shows at once."""
GRADIENTS = 5
"""Forwards that a forward with its backward may take as long as."""
TOOL = 12
"""How much longer everything may take under compute-sanitizer or ncu."""
CONSTRUCTED = 10
"""How much longer ModelNew may take to construct than Model."""
LOADED_BYTES_S = 200e6
"""Bytes of parameters that any machine moves to where the candidate computes in a second."""
SIZES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4}
"""Bytes of one number of a dtype; `LARGEST` for every other."""
LARGEST = 16
_UNRELATED = ("operators", "traced")


class Rule(NamedTuple):
    """Seconds that are granted in any case, and how many times the reference's."""

    floor_s: float
    times: float


RULES = {"cuda": Rule(10.0, 100.0), "emulator": Rule(30.0, 2000.0)}


class Limit(NamedTuple):
    seconds: float
    reason: str
    """Where it comes from, in words that may follow it in parentheses."""


class CallLimits:
    """Those of one trial."""

    def __init__(self, job: Job, *, under_a_tool: bool = False) -> None:
        self._slower = TOOL if under_a_tool else 1
        floor_s, times = RULES[job.executor]
        self._rule = Rule(self._slower * floor_s, self._slower * times)
        self.most_s = job.candidate_timeout_s
        """Upper limit of every command, in seconds."""
        self._forward_s = self._construct_s = 0.0

    def learn(self, forward_s: float, construct_s: float) -> None:
        """What the reference takes at the sizes of this trial; nothing is known before."""
        self._forward_s, self._construct_s = forward_s, construct_s

    def of(self, command: dict[str, Any]) -> Limit:
        """For one command of the worker's."""
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
        """For one call of forward."""
        return self.of({"do": "call"})

    def _sum(self, times: float, each_s: float, whose: str, extra_s: float = 0.0) -> Limit:
        floor_s = self._rule.floor_s + extra_s
        said = f"{floor_s:g} s and {times:g} times the {1000 * each_s:.3g} ms that {whose} takes"
        return self._capped(floor_s + times * each_s, said)

    def _capped(self, seconds: float, reason: str) -> Limit:
        return Limit(seconds, reason) if seconds < self.most_s else Limit(self.most_s, SETTING)


def state_bytes(command: dict[str, Any]) -> int:
    """Bytes of the parameters that a command to make an instance describes."""
    return sum(
        math.prod(spec["shape"]) * SIZES.get(spec["dtype"], LARGEST)
        for spec in (command.get("state") or {}).get("tensors", ())
    )


def least_s(job: Job) -> float:
    """No limit of a call is shorter."""
    return min(RULES[job.executor].floor_s, job.candidate_timeout_s)
