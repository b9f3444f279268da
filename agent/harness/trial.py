"""One trial: the candidate is loaded, instantiated and called on secret draws at given sizes.

In order: load and build; two sets of perturbed parameters, a new instance each; the draws that
`agent.harness.protocol` plans. For each call: structure; inputs, parameters and earlier outputs unchanged and
not shared; values. At the end at least one kernel launch where launches are counted. The first thing that
fails ends the trial.
"""

import sys
from pathlib import Path
from typing import Any, Self

from agent.diagnosis import launches, python_errors, timeouts
from agent.emulator.units import BuildRequest
from agent.errors import EnvironmentFault, ProblemError
from agent.harness import asking, faults, lanes, own_kernels, own_work, protocol, real_shapes, workspace
from agent.harness.job import BUILD_LIMIT_S, ORACLE_LIMIT_S, Announce, Job, secret_seed
from agent.harness.lane import Lane
from agent.harness.nothing import Nothing
from agent.harness.protocol import Draw
from agent.harness.requests import Talk
from agent.records import Build, Correctness, Environment, Finding, MismatchMap, Status, Trace
from agent.sandbox import Child, ChildFault


class Trial:
    """Owns the oracle and the workers of one trial; use as a context manager.

    `findings` collects warnings on the way; a refusal raises `faults.Refused`.
    """

    def __init__(
        self, job: Job, source: str, trace: Trace, *, folder: Path, lane: Lane, tool: tuple[str, ...] = ()
    ) -> None:
        """`tool`: a command that runs the worker."""
        self._job, self._trace, self._folder, self._lane = job, trace, folder, lane
        self.build: Build | None = None
        self.asked: tuple[BuildRequest, ...] = ()
        """What importing the file asked to have built."""
        self.findings: list[Finding] = []
        self.mismatch: MismatchMap | None = None
        self.correctness = Correctness(draws=1, max_abs_err=None, max_rel_err=None, error_budget_ratio=None)
        self._left_out: list[str] = []
        self.launches: int | None = None
        self._drawn = 0
        self._recorded: tuple[int, Any] | None = None
        self._seed = 0
        tightened = job.admission.tightened if job.admission else ()
        self._plan = protocol.plan(job.protocol, tightened)
        reference = workspace.oracle_folder(folder) / "reference.py"
        reference.write_text(source)
        self._given: dict[str, Any] = {}
        self._nothing: Nothing | None = None
        timed = job.measure and lane.device == "cuda"
        with lanes.joined(lane, 1 + timed) as (mine, theirs):
            argv = [sys.executable, "-P", "-m", "agent.harness.oracle"]
            argv += [str(reference), str(folder), lane.device, lanes.named(mine)]
            self._oracle = Child(argv, cwd=Path.cwd(), env=lane.trusted_environment(), passed=mine)
            self._worker = lanes.worker(lane, job, folder, trace, theirs[0], tool)
            if timed:
                self._nothing = Nothing(job, trace, lane, workspace.nothing_folder(folder), theirs[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.kill()
        if self._nothing is not None:
            self._nothing.end()
        self._oracle.kill()

    def end(self) -> None:
        """Ends the candidate's process."""
        self._worker.kill()

    def environment(self) -> Environment:
        return Environment(**self._consult({"do": "environment"}), compiler=self._lane.compiler)

    def load(self) -> None:
        """Imports the candidate, which builds its extensions."""
        limit = BUILD_LIMIT_S if self._lane.builds_in_worker else self._job.candidate_timeout_s
        try:
            answer = self._worker.ask({"do": "load"}, limit, self._lane.serve)
        except ChildFault as fault:
            self._lane.raise_build_failure()
            doing = "while the file was imported"
            raise faults.refused_child(fault, "build", doing, self._last_words()) from None
        self.asked = tuple(self._lane.requests)
        self.build = self._lane.built()
        self._lane.raise_build_failure(answer.get("error"))
        self._check(answer, "run", "importing the file failed")

    def verify(self, announce: Announce) -> None:
        """Runs every draw of every parameter set."""
        everything = sum(len(draws) for draws in self._plan)
        begun = 0
        for number, draws in enumerate(self._plan):
            seed = secret_seed()
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
        return (*protocol.skipped(self._job.protocol), *self._left_out)

    def talk(self) -> Talk:
        """For what is asked beside the protocol."""
        return Talk(self._tell, self._check, self._consult, self._weighed)

    def check_addresses(self, real: Trace, announce: Announce) -> tuple[str, ...]:
        """Calls the candidate at the sizes of `real`, last of all; what was left out. See `real_shapes`."""
        announce("checking addresses at the real sizes")
        return real_shapes.reach(self._worker, self._lane, real)

    def _drawn_for(self, draw: Draw, stem: str, before: dict[str, Any]) -> dict[str, Any]:
        """The description of the inputs; empty for a family that the reference cannot take."""
        if before:
            workspace.discard(self._folder, before["stem"])
        if draw.repeat:
            return self._consult({"do": "again", "stem": stem}) | {"stem": stem}
        self._seed = self._seed if draw.family == protocol.NEAR else secret_seed()
        drawn = self._consult(
            {"do": "draw", "seed": self._seed, "stem": stem, "family": draw.family, "in_place": draw.in_place}
        )
        if "left_out" in drawn:
            assert draw.family is not None
            self._left_out.append(f"{protocol.WORDS[draw.family]}: {drawn['left_out']}")
            return {}
        return drawn | {"stem": stem}

    def _call_on(self, drawn: dict[str, Any], draw: Draw, stem: str) -> dict[str, Any]:
        self._given = drawn
        command = {
            **drawn, "do": "call", "stem": f"{stem}-out", "send_back": f"{stem}-after",
            "checked": draw.checked and not self._job.unchecked,
            "keep_all": workspace.exchanged_bytes(self._trace) <= workspace.KEPT_BYTES,
        }  # fmt: skip
        return self._tell(command, "running forward")

    def _call(self, draw: Draw, stem: str, drawn: dict[str, Any]) -> None:
        after = f"{stem}-after"
        answer = self._call_on(drawn, draw, stem)
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
            raise faults.under(protocol.WORDS.get(draw.family or ""), refused) from None
        workspace.discard(self._folder, f"{stem}-out")
        for kind in ("input", "parameter", "output"):
            workspace.discard(self._folder, f"{stem}-after-{kind}")
        self._record(verdict)

    def _judged(
        self, outputs: dict[str, Any], claims: dict[str, Any], after: str, draw: Draw
    ) -> dict[str, Any]:
        claims = claims | {"sent_back": after}
        command = {"do": "judge", "outputs": outputs, "claims": claims, "repeat": draw.repeat}
        reply = self._weighed(command)
        if "finding" in reply:
            found = Finding.model_validate(reply["finding"])
            if reply["status"] == Status.INCORRECT:
                self.mismatch = asking.picture(self._oracle)
                found = asking.cause(found, self._job, self._oracle, self._worker, self._lane.serve)
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
        if self._lane.suppressor is not None:
            drawn = self._drawn_for(Draw(), "ablated", self._given)
            self._check(self._call_on(drawn, Draw(), "ablated"), "run", "forward failed")
            own_work.check_ablation(self._tell, self._compare, drawn["output_bytes"])
        if replayed is None or self._recorded is None:
            return
        self._check_launches()
        inputs_seed, tree = self._recorded
        evidence = own_kernels.Evidence(
            libraries=replayed.libraries,
            runtime=replayed.runtime,
            setting=self._job.library_ops,
            seeds=(parameters_seed, inputs_seed, secret_seed()),
            tree=tree,
            consult=self._consult,
            compare=self._compare,
            folder=workspace.replay_folder(self._folder),
            environment=self._lane.environment(self._folder),
            limits=self._lane.limits(self._trace),
            timeout_s=self._job.candidate_timeout_s,
        )
        found = own_kernels.findings(self._folder / own_kernels.RECORD, evidence)
        if found:
            raise faults.Refused(Status.REJECTED, "integrity", list(map(self._lane.locate, found)))

    def _check_launches(self) -> None:
        if self.launches == 0:
            raise faults.Refused(Status.REJECTED, "verify", [faults.NO_LAUNCH])

    def _tell(self, command: dict[str, Any], doing: str) -> dict[str, Any]:
        try:
            return self._worker.ask(command, self._job.candidate_timeout_s, self._lane.serve)
        except ChildFault as fault:
            raise faults.refused_child(fault, "run", f"while {doing}", self._last_words()) from None

    def _last_words(self) -> timeouts.LastWords:
        return timeouts.last_words(self._folder, self._worker.log, self._job.candidate.source)

    def _check(self, answer: dict[str, Any], stage: faults.Stage, doing: str) -> None:
        """Raises Refused for what the worker reports: device findings first, they name the cause."""
        claims = self._lane.resolve(answer.get("device_findings"))
        found = faults.device_findings(claims, self._lane.locate)
        found = [launches.because(finding, self._job.candidate.source, self._trace) for finding in found]
        errors = [finding for finding in found if finding.severity == "error"]
        self.findings = _merged(self.findings, [finding for finding in found if finding not in errors])
        if "error" in answer:
            source = self._job.candidate.source
            raised = python_errors.finding(answer["error"], doing, source, self._trace)
            errors = python_errors.beside(errors, raised)
        if errors:
            raise faults.Refused(Status.RUNTIME_ERROR, stage, errors)
        counted = answer.get("launches")
        self.launches = counted if isinstance(counted, int) else None

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
