"""Additional process of a candidate, beside the one that is judged, replaced when it crashes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.harness.backends import selection
from agent.harness.backends.backend import Backend
from agent.harness.messages import worker_answers
from agent.harness.messages.commands import load
from agent.harness.task import call_limits
from agent.harness.task.job import Job
from agent.records import Trace
from agent.sandbox import Child, ChildFault

Serve = Callable[[dict[str, Any]], dict[str, Any]]
"""Function that answers the build requests of the candidate's process."""


class CandidateProcess:
    """Worker process for a candidate, as a context manager. No other process builds in its `folder`."""

    def __init__(self, job: Job, trace: Trace, folder: Path) -> None:
        self._job, self._trace = job, trace
        self.folder = folder
        self.backend: Backend | None = None
        """Backend of the current process, or None before the first `load`."""
        self._child: Child | None = None

    def __enter__(self) -> "CandidateProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def load(self) -> dict[str, Any]:
        """Start a process that imports the candidate's file and return its answer. Raises ChildFault."""
        self.end()
        self.backend = selection.backend_for(self._job, lambda what: None)
        self._child = selection.worker(self.backend, self._job, self.folder, self._trace)
        limit_s = min(call_limits.LOAD_S, self._job.candidate_timeout_s)
        return self.ask(load(), limit_s)

    def ask(self, command: dict[str, Any], limit_s: float, serve: Serve | None = None) -> dict[str, Any]:
        """Return the current process's answer. The process has ended if this raises ChildFault.

        `serve` answers the process's build requests in place of its backend.
        """
        assert self._child is not None
        assert self.backend is not None
        granted = self.backend.building.granted()
        try:
            return worker_answers.ask(self._child, self.backend, command, limit_s, granted, serve)
        except ChildFault:
            self.end()
            raise

    @property
    def running(self) -> bool:
        return self._child is not None

    def end(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._child = None
