"""One trial: the candidate is loaded, instantiated and called on secret draws at given sizes.

In order: load and build; two sets of perturbed parameters, a new instance each; the draws that
`agent.harness.protocol` plans. For each call: structure; inputs, parameters and earlier outputs unchanged and
not shared; values. At the end at least one kernel launch where launches are counted. The first thing that
fails ends the trial.
"""

import secrets
import sys
from pathlib import Path
from typing import Any

from agent.emulator.units import BuildRequest
from agent.errors import EnvironmentFault, ProblemError
from agent.harness import faults, lanes, own_kernels, protocol, real_shapes
from agent.harness.job import BUILD_LIMIT_S, ORACLE_LIMIT_S, Announce, Job
from agent.harness.lanes import Lane
from agent.harness.protocol import Draw
from agent.harness.workspace import (
    SENT_BACK_BYTES,
    discard,
    exchanged_bytes,
    oracle_folder,
    replay_folder,
)
from agent.records import Build, Correctness, Environment, Finding, Status, Trace
from agent.sandbox import Child, ChildFault


class Trial:
    """Owns the oracle and the worker of one trial; use as a context manager.

    `findings` collects warnings on the way; a refusal raises `faults.Refused`.
    """

    def __init__(self, job: Job, source: str, trace: Trace, *, folder: Path, lane: Lane) -> None:
        self._job, self._trace, self._folder, self._lane = job, trace, folder, lane
        self.build: Build | None = None
        self.asked: tuple[BuildRequest, ...] = ()
        """What importing the file asked to have built."""
        self.findings: list[Finding] = []
        self.correctness = Correctness(draws=1, max_abs_err=None, max_rel_err=None, error_budget_ratio=None)
        self._left_out: list[str] = []
        self._launches: int | None = None
        self._drawn = 0
        self._recorded: tuple[int, Any] | None = None
        self._seed = 0
        tightened = job.admission.tightened if job.admission else ()
        self._plan = protocol.plan(job.protocol, exchanged_bytes(trace), tightened)
        reference = oracle_folder(folder) / "reference.py"
        reference.write_text(source)
        argv = [sys.executable, "-P", "-m", "agent.harness.oracle", str(reference), str(folder), lane.device]
        self._oracle = Child(argv, cwd=Path.cwd(), env=lane.trusted_environment())
        self._worker = lanes.worker(lane, job, folder, trace)

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.kill()
        self._oracle.kill()

    def environment(self) -> Environment:
        return Environment(**self._consult({"do": "environment"}), compiler=self._lane.compiler)

    def load(self) -> None:
        """Imports the candidate, which builds its extensions."""
        limit = BUILD_LIMIT_S if self._lane.builds_in_worker else self._job.candidate_timeout_s
        try:
            answer = self._worker.ask({"do": "load"}, limit, self._lane.serve)
        except ChildFault as fault:
            self._lane.raise_build_failure()
            raise faults.refused_child(
                fault, "build", "while the file was imported", self._worker.log
            ) from None
        self.asked = tuple(self._lane.requests)
        self.build = self._lane.built()
        self._lane.raise_build_failure(answer.get("error"))
        self._check(answer, "run", "importing the file failed")

    def verify(self, announce: Announce) -> None:
        """Runs every draw of every parameter set."""
        everything = sum(len(draws) for draws in self._plan)
        begun = 0
        for number, draws in enumerate(self._plan):
            seed = _secret()
            manifest = self._consult({"do": "parameters", "seed": seed, "stem": f"set{number}"})
            answer = self._tell({"do": "instance", **manifest}, "creating ModelNew")
            self._check(answer, "run", "creating ModelNew failed")
            drawn: dict[str, Any] = {}
            for draw in draws:
                begun += 1
                announce(f"verifying, draw {begun} of {everything}")
                drawn = self._drawn_for(draw, f"draw{begun}", drawn)
                if drawn:
                    self._call(draw, f"draw{begun}", drawn)
            if number == 0:
                announce("repeating the kernels alone")
                self._check_own_kernels(seed)
        self._check_launches()

    def skipped(self) -> tuple[str, ...]:
        """Draws that were not made, each with its reason."""
        return (*protocol.skipped(self._job.protocol, exchanged_bytes(self._trace)), *self._left_out)

    def check_addresses(self, real: Trace) -> tuple[str, ...]:
        """Calls the candidate at the sizes of `real`, last of all; what was left out. See `real_shapes`."""
        return real_shapes.reach(self._worker, self._lane, real)

    def time(self, announce: Announce) -> dict[str, list[float]]:
        """Times of candidate, eager and compiled reference on the last inputs, in milliseconds."""
        command = {"do": "time", "repeats": 50, "budget_s": 8.0}
        announce("timing the candidate")
        answer = self._tell(command, "timing")
        self._check(answer, "measure", "timing the candidate failed")
        times = {"candidate": _positive(answer.get("ms"))}
        for name, compiled in (("eager", False), ("compile", True)):
            announce(f"timing the reference, {name}")
            reply = self._timed_reference(command | {"compiled": compiled})
            times[name] = _positive(reply.get("ms"))
            if "error" in reply:
                cause = next(iter(str(reply["error"]).splitlines()), "")
                message = f"The reference could not be timed under {name}: {cause}"
                self.findings.append(Finding(kind="baseline-missing", severity="note", message=message))
        return times

    def _timed_reference(self, command: dict[str, Any]) -> dict[str, Any]:
        """A baseline that cannot be had is no fault of the candidate's."""
        try:
            return self._oracle.ask(command, ORACLE_LIMIT_S)
        except ChildFault as fault:
            return {"error": f"it {fault}"}

    def _drawn_for(self, draw: Draw, stem: str, before: dict[str, Any]) -> dict[str, Any]:
        """The description of the inputs; empty for a family that the reference cannot take."""
        if draw.repeat:
            return before
        if before:
            discard(self._folder, before["inputs"]["stem"])
        self._seed = self._seed if draw.family == protocol.NEAR else _secret()
        command = {"do": "draw", "seed": self._seed, "stem": stem, "family": draw.family}
        drawn = self._consult(command)
        if "left_out" in drawn:
            assert draw.family is not None
            self._left_out.append(f"{protocol.WORDS[draw.family]}: {drawn['left_out']}")
            return {}
        return drawn

    def _call(self, draw: Draw, stem: str, drawn: dict[str, Any]) -> None:
        after = f"{stem}-after" if exchanged_bytes(self._trace) <= SENT_BACK_BYTES else None
        checked = draw.checked and not self._job.unchecked
        command = {
            "do": "call", "stem": f"{stem}-out", "send_back": after, "checked": checked,
            "in_place": draw.in_place, **drawn,
        }  # fmt: skip
        answer = self._tell(command, "running forward")
        self._drawn += 1
        try:
            self._check(answer, "run", "forward failed")
            outputs = answer.get("outputs")
            if not isinstance(outputs, dict) or outputs.get("stem") != f"{stem}-out":
                raise faults.Refused(Status.REJECTED, "verify", [faults.protocol_violation()])
            if self._recorded is None:
                self._recorded = self._seed, outputs.get("tree")
            verdict = self._judged(outputs, answer, after, draw)
        except faults.Refused as refused:
            raise _under(draw, refused) from None
        discard(self._folder, f"{stem}-out")
        for kind in ("input", "parameter", "output"):
            discard(self._folder, f"{stem}-after-{kind}")
        self._record(verdict)

    def _judged(
        self, outputs: dict[str, Any], claims: dict[str, Any], after: str | None, draw: Draw
    ) -> dict[str, Any]:
        command = {
            "do": "judge", "outputs": outputs, "claims": claims, "send_back": after, "repeat": draw.repeat,
        }  # fmt: skip
        reply = self._weighed(command)
        if "finding" in reply:
            found = Finding.model_validate(reply["finding"])
            raise faults.Refused(Status(reply["status"]), "verify", [found])
        return reply

    def _weighed(self, command: dict[str, Any]) -> dict[str, Any]:
        """What the oracle says of outputs that something outside it described."""
        reply = self._oracle.ask(command, ORACLE_LIMIT_S)
        if str(reply.get("error", "")).startswith(("WireError", "KeyError", "TypeError", "ValueError")):
            # The description came from the candidate's process: one that does not fit is its fault.
            raise faults.Refused(Status.REJECTED, "verify", [faults.protocol_violation(reply["error"])])
        if "error" in reply:
            raise EnvironmentFault(f"the comparison failed: {reply['error']}")
        return reply

    def _compare(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """Structure and values alone."""
        return self._weighed({"do": "compare", "outputs": outputs})

    def _record(self, verdict: dict[str, Any]) -> None:
        known = self.correctness
        self.correctness = Correctness(
            draws=self._drawn,
            max_abs_err=max(known.max_abs_err or 0.0, verdict["max_abs_err"]),
            max_rel_err=max(known.max_rel_err or 0.0, verdict["max_rel_err"]),
            error_budget_ratio=max(known.error_budget_ratio or 0.0, verdict["ratio"]),
            native_max_abs_err=max(known.native_max_abs_err or 0.0, verdict["native_error"]),
        )

    def _check_own_kernels(self, parameters_seed: int) -> None:
        """Where kernels can be repeated without host code, they alone have to give the result."""
        replayed = self._lane.replayed()
        if replayed is None or self._recorded is None:
            return
        self._check_launches()
        inputs_seed, tree = self._recorded
        evidence = own_kernels.Evidence(
            libraries=replayed.libraries,
            runtime=replayed.runtime,
            setting=self._job.library_ops,
            seeds=(parameters_seed, inputs_seed, _secret()),
            tree=tree,
            consult=self._consult,
            compare=self._compare,
            folder=replay_folder(self._folder),
            environment=self._lane.environment(self._folder),
            limits=self._lane.limits(self._trace),
            timeout_s=self._job.candidate_timeout_s,
        )
        found = own_kernels.findings(self._folder / own_kernels.RECORD, evidence)
        if found:
            raise faults.Refused(Status.REJECTED, "integrity", list(map(self._lane.locate, found)))

    def _check_launches(self) -> None:
        if self._launches == 0:
            raise faults.Refused(Status.REJECTED, "verify", [faults.NO_LAUNCH])

    def _tell(self, command: dict[str, Any], doing: str) -> dict[str, Any]:
        try:
            return self._worker.ask(command, self._job.candidate_timeout_s, self._lane.serve)
        except ChildFault as fault:
            raise faults.refused_child(fault, "run", f"while {doing}", self._worker.log) from None

    def _check(self, answer: dict[str, Any], stage: faults.Stage, doing: str) -> None:
        """Raises Refused for what the worker reports: device findings first, they name the cause."""
        claims = self._lane.resolve(answer.get("device_findings"))
        found = faults.device_findings(claims, self._lane.locate)
        errors = [finding for finding in found if finding.severity == "error"]
        self.findings = _merged(self.findings, [finding for finding in found if finding not in errors])
        if "error" in answer:
            errors.append(faults.python_error(answer["error"], doing, self._job.candidate.source))
        if errors:
            raise faults.Refused(Status.RUNTIME_ERROR, stage, errors)
        launches = answer.get("launches")
        self._launches = launches if isinstance(launches, int) else None

    def _consult(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._oracle.ask(command, ORACLE_LIMIT_S)
        except ChildFault as fault:
            raise ProblemError(f"{self._job.problem.name}: the reference {fault}") from None
        if "error" in answer:
            raise ProblemError(f"{self._job.problem.name}: the reference failed: {answer['error']}")
        return answer


def _merged(known: list[Finding], new: list[Finding]) -> list[Finding]:
    seen = {(finding.kind, finding.location) for finding in known}
    return known + [finding for finding in new if (finding.kind, finding.location) not in seen]


def _under(draw: Draw, refused: faults.Refused) -> faults.Refused:
    """The same verdict; its headline says on which inputs, where they were not the stated ones."""
    if draw.family is None:
        return refused
    headline, *rest = refused.findings
    message = f"With {protocol.WORDS[draw.family]}: {headline.message}"
    return faults.Refused(
        refused.status, refused.stage, [headline.model_copy(update={"message": message}), *rest]
    )


def _positive(values: object) -> list[float]:
    return (
        [float(v) for v in values if isinstance(v, (int, float)) and v > 0]
        if isinstance(values, list)
        else []
    )


def _secret() -> int:
    return secrets.randbits(62)
