"""One trial: the candidate is loaded, instantiated and called on secret draws at given sizes.

In order: load and build; two sets of perturbed parameters, a new instance each; three fresh draws;
structure before values; inputs unchanged; an output kept across the next call unchanged; at least one
kernel launch where launches are counted. The first thing that fails ends the trial.
"""

import json
import secrets
import sys
from pathlib import Path
from typing import Any

from agent.errors import EnvironmentFault, ProblemError
from agent.harness import faults, own_kernels
from agent.harness.job import BUILD_LIMIT_S, ORACLE_LIMIT_S, Announce, Job
from agent.harness.lanes import Lane
from agent.harness.workspace import discard, oracle_folder, replay_folder
from agent.records import Build, Correctness, Environment, Finding, Status, Trace
from agent.sandbox import Child, ChildFault

DRAWS_PER_PARAMETER_SET = (2, 1)


class Trial:
    """Owns the oracle and the worker of one trial; use as a context manager.

    `findings` collects warnings on the way; a refusal raises `faults.Refused`.
    """

    def __init__(self, job: Job, source: str, trace: Trace, *, folder: Path, lane: Lane) -> None:
        self._job, self._trace, self._folder, self._lane = job, trace, folder, lane
        self.build: Build | None = None
        self.findings: list[Finding] = []
        self.correctness = Correctness(draws=1, max_abs_err=None, max_rel_err=None, error_budget_ratio=None)
        self._launches: int | None = None
        self._drawn = 0
        self._recorded: tuple[int, Any] | None = None
        reference = oracle_folder(folder) / "reference.py"
        reference.write_text(source)
        argv = [sys.executable, "-P", "-m", "agent.harness.oracle", str(reference), str(folder), lane.device]
        self._oracle = Child(argv, cwd=Path.cwd(), env=lane.trusted_environment())
        self._worker = Child(
            [sys.executable, "-I", "worker.py", job.executor, json.dumps(lane.settings())],
            cwd=folder,
            env=lane.environment(folder),
            box=lane.box(folder),
            limits=lane.limits(trace),
        )

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
        self.build = self._lane.built()
        self._lane.raise_build_failure(answer.get("error"))
        self._check(answer, "run", "importing the file failed")

    def verify(self, announce: Announce) -> None:
        """Runs every draw of every parameter set."""
        for number, draws in enumerate(DRAWS_PER_PARAMETER_SET):
            stem = f"set{number}"
            seed = _seed()
            manifest = self._consult({"do": "parameters", "seed": seed, "stem": stem})
            answer = self._tell({"do": "instance", **manifest}, "creating ModelNew")
            self._check(answer, "run", "creating ModelNew failed")
            for draw in range(draws):
                self._drawn += 1
                announce(f"verifying, draw {self._drawn} of {sum(DRAWS_PER_PARAMETER_SET)}")
                # Where memory can be checked it costs several times the run, so once for each set.
                self._draw(f"draw{self._drawn}", checked=draw == 0 and not self._job.unchecked)
            if number == 0:
                announce("repeating the kernels alone")
                self._check_own_kernels(seed)
        self._check_launches()

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

    def _draw(self, stem: str, *, checked: bool) -> None:
        seed = _seed()
        drawn = self._consult({"do": "draw", "seed": seed, "stem": stem})
        command = {"do": "call", "inputs": drawn["inputs"], "stem": stem + "-out", "checked": checked}
        answer = self._tell(command, "running forward")
        discard(self._folder, stem)
        self._check(answer, "run", "forward failed")
        self._check_integrity(answer)
        outputs = answer.get("outputs")
        if not isinstance(outputs, dict) or outputs.get("stem") != stem + "-out":
            raise faults.Refused(Status.REJECTED, "verify", [faults.protocol_violation()])
        if self._recorded is None:
            self._recorded = seed, outputs.get("tree")
        verdict = self._compare(outputs)
        discard(self._folder, stem + "-out")
        if "finding" in verdict:
            raise faults.Refused(Status.INCORRECT, "verify", [Finding.model_validate(verdict["finding"])])
        self._record(verdict)

    def _compare(self, outputs: dict[str, Any]) -> dict[str, Any]:
        command = {"do": "compare", "outputs": outputs, "summands": _summands(self._trace)}
        reply = self._oracle.ask(command, ORACLE_LIMIT_S)
        if str(reply.get("error", "")).startswith(("WireError", "KeyError", "TypeError", "ValueError")):
            # The description came from the candidate's process: one that does not fit is its fault.
            raise faults.Refused(Status.REJECTED, "verify", [faults.protocol_violation(reply["error"])])
        if "error" in reply:
            raise EnvironmentFault(f"the comparison failed: {reply['error']}")
        return reply

    def _record(self, verdict: dict[str, Any]) -> None:
        known = self.correctness
        self.correctness = Correctness(
            draws=self._drawn,
            max_abs_err=max(known.max_abs_err or 0.0, verdict["max_abs_err"]),
            max_rel_err=max(known.max_rel_err or 0.0, verdict["max_rel_err"]),
            error_budget_ratio=max(known.error_budget_ratio or 0.0, verdict["ratio"]),
        )

    def _check_integrity(self, answer: dict[str, Any]) -> None:
        if answer.get("inputs_changed"):
            raise faults.Refused(Status.REJECTED, "verify", [faults.INPUT_MODIFIED])
        if answer.get("earlier_output_changed"):
            raise faults.Refused(Status.REJECTED, "verify", [faults.OUTPUT_REUSED])

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
            seeds=(parameters_seed, inputs_seed, _seed()),
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


def _summands(trace: Trace) -> int:
    """Most terms that one output element of a matrix product or convolution sums up."""
    return max(
        (op.flops // max(2 * sum(out.elements for out in op.outputs), 1) for op in trace.operations),
        default=1,
    )


def _positive(values: object) -> list[float]:
    return (
        [float(v) for v in values if isinstance(v, (int, float)) and v > 0]
        if isinstance(values, list)
        else []
    )


def _seed() -> int:
    return secrets.randbits(62)
