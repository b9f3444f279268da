"""Client of a trial for the candidate's process, which turns faults in its answers into refusals.

Each command has a time limit (`call_limits`), which excludes builds. An answer may report a failed build,
errors in device findings and an exception, in this order of precedence. Each of these ends the trial.
"""

from pathlib import Path
from typing import Any

from agent.build.source_map import CANDIDATE
from agent.diagnosis.runtime import illegal_launches, python_errors, timeouts
from agent.errors import OutOfMemory
from agent.harness.backends.backend import Backend
from agent.harness.backends.candidate_process import Serve
from agent.harness.messages import worker_answers
from agent.harness.messages.commands import load
from agent.harness.task import faults
from agent.harness.task.call_limits import CallLimits
from agent.harness.task.job import Job
from agent.records import Finding, Status, Trace
from agent.sandbox import Child, ChildFault
from agent.torch_shim.finding_kinds import FindingKind


class WorkerClient:
    """Client of `child`, the process that loads the candidate in `folder`."""

    def __init__(
        self, child: Child, job: Job, trace: Trace, folder: Path, backend: Backend, limits: CallLimits
    ) -> None:
        self.child, self.backend = child, backend
        self._job, self._trace, self._folder, self._limits = job, trace, folder, limits
        self.findings: list[Finding] = []
        """Warnings and notes on the candidate so far."""
        self.launches: int | None = None
        """Number of kernel launches so far, from the last answer that has it, or None."""
        self._checked = self._nothing_found = False
        """Two flags: the last call had memory checks, and a call with memory checks has passed."""
        self._file = CANDIDATE
        """Name of the candidate's file in the worker, replaced in its log."""

    def load(self, *, ahead: bool) -> None:
        """Import the candidate, which may build its extensions.

        With `ahead`, the worker initialises its GPU context while it waits for a build.
        """
        command = load(ahead=ahead)
        self._file = f"{command['name']}.py"
        answer = self.tell(command, "importing the file", "build")
        self.check(answer, "run", "importing the file failed")

    def tell(self, command: dict[str, Any], doing: str, stage: faults.Stage = "run") -> dict[str, Any]:
        """Return the worker's answer. Raises Refused if the process ends or exceeds its limit.

        `doing` describes the command in findings.
        """
        limit, clock = self._limits.of(command), self.backend.building
        self._checked = bool(command.get("checked"))
        try:
            return worker_answers.ask(self.child, self.backend, command, limit.seconds, clock.granted())
        except ChildFault as fault:
            self.backend.raise_build_failure()
            doing, reason = f"while {doing}", limit.reason
            if clock.running:
                doing, reason = f"{doing}, and within that building an extension", ""
            raise faults.refused_child(fault, stage, doing, self._last_words(), reason) from None

    def check(self, answer: dict[str, Any], stage: faults.Stage, doing: str) -> None:
        """Raise Refused if the answer reports an error; add its warnings to `findings`."""
        self.backend.raise_build_failure(answer.get("error"))
        self._require_memory(answer.get("error"))
        claims = self.backend.resolve(answer.get("device_findings"))
        found = faults.device_findings(claims, self.backend.locate)
        found = [
            illegal_launches.because(finding, self._job.candidate.source, self._trace) for finding in found
        ]
        errors = [finding for finding in found if finding.severity == "error"]
        differs = [faults.SOME_CALLS] if errors and self._nothing_found else []
        # The emulator warns about the default stream in every draw; `--unchecked` drops this warning, too.
        left_out = {FindingKind.DEFAULT_STREAM} if self._job.unchecked else set()
        warnings = [f for f in found if f not in errors and f.kind not in left_out]
        self.findings = _merged(self.findings, warnings)
        if "error" in answer:
            source = self._job.candidate.source
            raised = python_errors.finding(answer["error"], doing, source, self._trace)
            if raised.kind in python_errors.OF_BUILDS:
                raise faults.Refused(Status.BUILD_ERROR, "build", [raised])
            errors = python_errors.beside(errors, raised)
        if errors:
            raise faults.Refused(Status.RUNTIME_ERROR, stage, errors + differs)
        self._nothing_found |= self._checked
        self.launches = answer.get("launches")

    def _require_memory(self, error: Any) -> None:
        """Raise OutOfMemory if the candidate found too little memory beside other trials."""
        said = str(error.get("message")).lower() if isinstance(error, dict) else ""
        if "out of memory" in said and not self._job.has_whole_gpu:
            raise OutOfMemory("the candidate found too little free memory on the GPU beside other trials")

    def timed(self, command: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a timing command. Raises Refused if the call fails."""
        answer = self.tell(command, "timing")
        self.check(answer, "measure", "timing the candidate failed")
        return answer

    def ask(self, command: dict[str, Any], limit_s: float, serve: Serve | None = None) -> dict[str, Any]:
        """Return the answer to a command whose failure is no verdict. Raises ChildFault.

        `serve` builds in place of the backend.
        """
        return worker_answers.ask(self.child, self.backend, command, limit_s, serve=serve)

    def _last_words(self) -> timeouts.LastWords:
        log = self.child.log.replace(self._file, CANDIDATE)
        return timeouts.last_words(self._folder, log, self._job.candidate.source)


def _merged(known: list[Finding], new: list[Finding]) -> list[Finding]:
    seen = {(finding.kind, finding.location) for finding in known}
    return known + [finding for finding in new if (finding.kind, finding.location) not in seen]
