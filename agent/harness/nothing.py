"""A worker whose module does nothing: what commands, processes and copies cost without a candidate.

It runs as a candidate's worker does, in a sandbox of its own, with the same inputs and as large outputs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import EnvironmentFault
from agent.harness import lanes
from agent.harness.job import Job
from agent.harness.lane import Lane
from agent.harness.workspace import furnish
from agent.records import Trace
from agent.sandbox import Child, ChildFault

LIMIT_S = 120.0
_SOURCE = '''import torch


class ModelNew(torch.nn.Module):
    """Returns what it made once."""

    def __init__(self):
        super().__init__()
        self.results = [
            torch.zeros(shape, dtype=getattr(torch, dtype), device="cuda") for shape, dtype in {outputs}
        ]

    def forward(self, *inputs):
        return self.results
'''
_EMPTY = {"stem": "empty", "tensors": []}


class Nothing:
    """Owns the process; `end` it."""

    def __init__(self, job: Job, trace: Trace, lane: Lane, folder: Path, passed: lanes.Passed) -> None:
        folder.mkdir()
        outputs = [(list(spec.shape), spec.dtype) for spec in trace.outputs]
        furnish(folder, _SOURCE.format(outputs=outputs), lane)
        self._child: Child = lanes.worker(lane, job, folder, trace, passed)

    def prepare(self, drawn: Mapping[str, Any]) -> None:
        """Makes it ready to be timed on inputs that the candidate was called on."""
        self.ask({"do": "load"})
        self.ask({"do": "instance", "init_inputs": _EMPTY | {"tree": ["list", []]},
                  "state": _EMPTY | {"tree": ["dict", []]}})  # fmt: skip
        self.ask({**drawn, "do": "call", "stem": "nothing", "keep_all": False, "output_bytes": []})

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._child.ask(command, LIMIT_S)
        except ChildFault as fault:
            log = "\n".join(self._child.log.splitlines()[-5:])
            raise EnvironmentFault(f"the clock's empty module {fault}: {log}") from None
        if "error" in answer:
            raise EnvironmentFault(f"the clock's empty module failed: {answer['error']}")
        return answer

    def end(self) -> None:
        self._child.kill()
