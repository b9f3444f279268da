"""A process of the candidate's beside the one it is judged in, replaced when it breaks."""

from pathlib import Path
from typing import Any

from agent.harness import lanes
from agent.harness.job import BUILD_LIMIT_S, Job
from agent.harness.lane import Lane
from agent.records import Trace
from agent.sandbox import Child, ChildFault


class Subject:
    """The candidate in `folder`, which no other process of its own builds in; use as a context manager."""

    def __init__(self, job: Job, trace: Trace, folder: Path) -> None:
        self._job, self._trace = job, trace
        self.folder = folder
        self.lane: Lane | None = None
        """That of the present process."""
        self._child: Child | None = None

    def __enter__(self) -> "Subject":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def load(self) -> dict[str, Any]:
        """Starts a process that imports the file; its answer. Raises ChildFault."""
        self.end()
        self.lane = lanes.lane_for(self._job, lambda what: None)
        self._child = lanes.worker(self.lane, self._job, self.folder, self._trace)
        limit = BUILD_LIMIT_S if self.lane.builds_in_worker else self._job.candidate_timeout_s
        return self.ask({"do": "load"}, limit)

    def ask(self, command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """The answer of the present process, which has ended where this raises ChildFault."""
        assert self._child is not None
        assert self.lane is not None
        try:
            return self._child.ask(command, limit_s, self.lane.serve)
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
