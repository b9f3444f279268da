"""Worker whose module does nothing, to measure the cost of commands, processes and copies.

The noop worker runs in a sandbox like a candidate's worker, on inputs and outputs of the same sizes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import EnvironmentFault
from agent.harness.backends import selection
from agent.harness.backends.backend import Backend
from agent.harness.backends.workspace import furnish
from agent.harness.messages import worker_answers
from agent.harness.messages.commands import call, instance, load
from agent.harness.task.job import Job
from agent.records import Trace
from agent.sandbox import Child, ChildFault

LIMIT_S = 120.0
_SOURCE = '''import torch

torch.zeros(1, device="cuda")


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
_EMPTY: dict[str, Any] = {"stem": "empty", "tensors": []}


class NoopWorker:
    """Noop worker of one trial. It starts the process `child`, which the trial ends."""

    def __init__(
        self, job: Job, trace: Trace, backend: Backend, folder: Path, passed: selection.Passed
    ) -> None:
        folder.mkdir()
        self._backend, self._begun = backend, False
        outputs = [(list(spec.shape), spec.dtype) for spec in trace.outputs]
        furnish(folder, _SOURCE.format(outputs=outputs), backend)
        self.child: Child = selection.worker(backend, job, folder, trace, passed)

    def begin(self) -> None:
        """Load the module, which initialises the process's GPU context, unless that has been done."""
        if not self._begun:
            self._begun = True
            self.timed(load())

    def prepare(self, drawn: Mapping[str, Any]) -> None:
        """Make the worker ready to be timed on inputs that the candidate was called on."""
        self.begin()
        parts = {"init_inputs": _EMPTY | {"tree": ["list", []]}, "state": _EMPTY | {"tree": ["dict", []]}}
        self.timed(instance(parts))
        self.timed(call({**drawn, "output_bytes": []}, "nothing"))

    def timed(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a command. Raises EnvironmentFault, as no candidate causes a failure."""
        try:
            answer = worker_answers.ask(self.child, self._backend, command, LIMIT_S)
        except ChildFault as fault:
            log = "\n".join(self.child.log.splitlines()[-5:])
            raise EnvironmentFault(f"the clock's empty module {fault}: {log}") from None
        if "error" in answer:
            raise EnvironmentFault(f"the clock's empty module failed: {answer['error']}")
        return answer
