"""Worker threads that judge, each one job at a time."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from agent import __version__, problems, resources
from agent.api import Checks, Judge, Listener, render_prompt
from agent.api.judge import load_problem
from agent.api.service import Answer, Asked, Fault, ProblemText
from agent.config import Settings
from agent.doors.service.ledger import OURS, Job, Ledger
from agent.errors import AgentError, Interrupted, ProblemError, UsageError
from agent.harness.judge import verifier
from agent.records import Candidate, Problem, Prompt, digest
from agent.store.disk import write_durably

Done = Callable[[Answer, float], None]
"""Callback for each finished job, with the seconds that it took."""


class Judging(Protocol):
    """Interface for judging jobs; raises AgentError if there is no verdict."""

    def name(self, asked: Asked) -> str:
        """Return a job's name, from its content and all that may change its verdict. Raises UsageError."""
        ...

    def judge(self, name: str, asked: Asked, told: Listener) -> Answer: ...

    def prompt(self, problem: str | ProblemText, checks: Checks) -> Prompt:
        """Return the first prompt for a model. Raises AgentError."""
        ...


class Here:
    """Judging of a service's jobs on this machine."""

    def __init__(self, settings: Settings, folder: Path, where: str, trusts: bool) -> None:
        """Prepare to judge. `where` names executor and GPU; `trusts` accepts clients' reference texts."""
        self._settings, self._where, self._trusts = settings, where, trusts
        self._folder = folder / "references"
        self._folder.mkdir(parents=True, exist_ok=True)
        shipped = resources.folder("references")
        self._shipped = {
            digest((shipped / f"{name}.py").read_text(encoding="utf-8")): name for name in problems.names()
        }

    def name(self, asked: Asked) -> str:
        problem = asked.problem
        text = digest(problem.source) if isinstance(problem, ProblemText) else problem
        self._address(problem)
        versions = (__version__, verifier.version(), self._where)
        checks = asked.checks.model_dump_json()
        return digest(text, repr(asked.candidate), checks, *versions)[:40]

    def judge(self, name: str, asked: Asked, told: Listener) -> Answer:
        settings = self._settings_for(asked.checks)
        problem = self._loaded(asked.problem, told)
        judge = Judge(problem, checks=asked.checks, progress=told, settings=settings)
        if asked.candidate is None:
            return Answer(id=name, state="done", admission=judge.admission)
        candidate = Candidate(problem=problem.name, source=asked.candidate, origin="file")
        return Answer(id=name, state="done", evaluation=judge.evaluate(candidate))

    def prompt(self, problem: str | ProblemText, checks: Checks) -> Prompt:
        return render_prompt(
            self._loaded(problem, Listener()), checks=checks, settings=self._settings_for(checks)
        )

    def _settings_for(self, checks: Checks) -> Settings:
        flags = {key: value for key, value in checks.flags().items() if value is not None}
        limit = self._settings.candidate_timeout
        limit = min(limit, checks.candidate_timeout_s or limit)
        return self._settings.model_copy(update={**flags, "sandbox": "require", "candidate_timeout": limit})

    def _loaded(self, problem: str | ProblemText, told: Listener) -> Problem:
        root = self._settings.kernelbench_root
        found = load_problem(self._address(problem), kernelbench_root=root, progress=told)
        if isinstance(problem, ProblemText):
            found = found.model_copy(update={"name": problem.name})
        return found

    def _address(self, problem: str | ProblemText) -> str:
        """Return the address of a reference.

        A text must equal that of a shipped reference, unless clients' reference texts are trusted.

        Raises UsageError, or ProblemError for a text that is not accepted.
        """
        if isinstance(problem, str):
            if problem.startswith("kernelbench:"):
                problems.path(problem, self._settings.kernelbench_root)
                return problem
            if problem not in problems.names():
                raise UsageError(f"{problem[:80]!r} is no reference of this service")
            return str(resources.folder("references") / f"{problem}.py")
        shipped = self._shipped.get(digest(problem.source))
        if shipped is not None:
            return str(resources.folder("references") / f"{shipped}.py")
        if not self._trusts:
            raise ProblemError(
                "this service takes no references of others, since they run as trusted code; "
                "its operator can allow it with --trust-references"
            )
        file = self._folder / f"{digest(problem.source)[:32]}.py"
        if not file.exists():
            # The file is written atomically, because other threads may read it at the same time.
            write_durably(file, problem.source.encode())
        return str(file)


class Workers:
    """Worker threads over one ledger."""

    def __init__(self, ledger: Ledger, judging: Judging, threads: int, done: Done) -> None:
        self._ledger, self._judging, self._done = ledger, judging, done
        self._stopping = threading.Event()
        self.steps: dict[str, str] = {}
        """Map from the id of a running job to its step in progress."""
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(threads)]

    @property
    def ending(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the jobs in progress; they are queued again."""
        self._stopping.set()
        self._ledger.wake()
        for thread in self._threads:
            thread.join(timeout=20)

    def _work(self) -> None:
        while (job := self._ledger.take(self._stopping.is_set)) is not None:
            began = time.monotonic()
            try:
                answer = self._judged(job)
            except Interrupted:
                self._ledger.give_back(job)
                return
            finally:
                self.steps.pop(job.id, None)
            if self.ending and answer.fault is not None and answer.fault.exit_code == OURS:
                # A fault reported while stopping may come from the stop itself.
                self._ledger.give_back(job)
                return
            self._ledger.finish(answer)
            self._done(answer, time.monotonic() - began)

    def _judged(self, job: Job) -> Answer:
        return answered(self._judging, job, _Step(self.steps, job.id, self._stopping.is_set))


def answered(judging: Judging, job: Job, told: Listener) -> Answer:
    """Return the answer to a job, with a fault of ours as an answer too. Raises only Interrupted."""
    try:
        return judging.judge(job.id, job.asked, told)
    except Interrupted:
        raise
    except AgentError as error:
        fault = Fault(exit_code=error.exit_code, message=str(error))
    except Exception as error:  # noqa: BLE001 - a defect of ours ends one job and no other
        said = f"a bug in kernelwright: {type(error).__name__}: {error}"
        fault = Fault(exit_code=3, message=said[:500])
    return Answer(id=job.id, state="failed", fault=fault)


class _Step(Listener):
    def __init__(self, steps: dict[str, str], name: str, stopped: Callable[[], bool]) -> None:
        self._steps, self._name, self._stopped = steps, name, stopped

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        if self._stopped():
            raise Interrupted("the service ends")
        self._steps[self._name] = text[:300]

    def warn(self, text: str) -> None:
        """Ignore the warning: the verdict's scope says it too."""

    def cancelled(self) -> bool:
        return self._stopped()
