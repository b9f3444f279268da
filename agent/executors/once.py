"""Executor of one run that judges each program once, even if it is built again under other names."""

from collections.abc import Iterable

from agent.executors.local import LocalExecutor
from agent.records import MAY_END_OTHERWISE, Candidate, Evaluation, Problem


class Once:
    """Executor that identifies programs by their compiled code (`Build.program`).

    On a GPU, a rebuilt program is recognised before the candidate uses the GPU.
    """

    def __init__(self, inner: LocalExecutor, before: Iterable[Evaluation]) -> None:
        """Wrap `inner`, and remember the programs of `before`, the run's earlier verdicts."""
        self._inner = inner
        self._programs: set[str] = set()
        for found in before:
            self._remember(found)

    @property
    def name(self) -> str:
        return self._inner.name

    def evaluate(self, problem: Problem, candidate: Candidate) -> Evaluation:
        """Return the verdict of the first look. Raises Rebuilt for a program that already has a verdict.

        A mend always gets a verdict, even for a known program, because no model has written it.
        """
        known = () if candidate.origin == "mend" else tuple(sorted(self._programs))
        found = self._inner.judge(self._inner.job(problem, candidate).model_copy(update={"known": known}))
        self._remember(found)
        return found

    def confirm(self, problem: Problem, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return self._inner.confirm(problem, candidate, evaluation)

    def _remember(self, found: Evaluation) -> None:
        if found.build and found.build.program and found.status not in MAY_END_OTHERWISE:
            self._programs.add(found.build.program)
