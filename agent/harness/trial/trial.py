"""One trial: the candidate is loaded, instantiated and called on secret draws at given sizes.

After load and build come the draws planned by `agent.harness.task.protocol`, on two sets of perturbed
parameters with a new instance each. The structure and values of every call's outputs are checked. Inputs,
parameters and earlier outputs must be unchanged, and outputs must not share memory with them. On the
emulator, each call must launch a kernel, and some recorded calls are replayed at the end. The first failure
ends the trial.
"""

import secrets
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

from agent.build.build_request import BuildRequest
from agent.harness.backends import build_watch, selection, workspace
from agent.harness.backends.backend import Backend
from agent.harness.integrity import followed_replay, kernel_attribution, launch_limits, repeating
from agent.harness.integrity.call_records import CallRecords, Drawn
from agent.harness.integrity.real_shapes import Judged, reach
from agent.harness.integrity.replay_check import Evidence
from agent.harness.messages import oracle_commands, where_commands
from agent.harness.messages.commands import call, instance, judged, to_oracle, to_worker
from agent.harness.messages.oracle_client import ORACLE, OracleClient
from agent.harness.task import faults, protocol
from agent.harness.task.call_limits import CallLimits
from agent.harness.task.conditions import Dealer
from agent.harness.task.job import Announce, Job, secret_seed
from agent.harness.task.protocol import Draw
from agent.harness.timing.noop_worker import NoopWorker
from agent.harness.trial import (
    interleaved,
    kernel_coverage,
    mismatch_diagnosis,
    parameter_assignment,
    worst_errors,
)
from agent.harness.trial.mismatch_diagnosis import Diagnosed
from agent.harness.trial.reused_outputs import ReusedOutputs
from agent.harness.trial.worker_client import WorkerClient
from agent.harness.worker import worker_commands
from agent.records import Build, Correctness, Environment, Finding, MismatchMap, Status, TensorSpec, Trace
from agent.sandbox import Child, end_all


class Trial:
    """One trial, which starts and ends the oracle and the workers; use as a context manager.

    `candidate` and `oracle` are the clients of the two processes. A refusal raises `faults.Refused`.
    """

    def __init__(
        self,
        job: Job,
        source: str,
        trace: Trace,
        *,
        folder: Path,
        backend: Backend,
        tool: tuple[str, ...] = (),
    ) -> None:
        """Start the processes. `tool` is the command line of a tool that runs the worker."""
        self._job, self._trace, self._folder, self._backend = job, trace, folder, backend
        self.limits = CallLimits(job, under_a_tool=bool(tool))
        self._at_import = self._until_now = 0
        """Number of build requests after the import of the candidate's file, and after the draws."""
        self._watch = build_watch.Watch(backend.requests)
        self.mismatch: MismatchMap | None = None
        self.correctness = Correctness(draws=1, max_abs_err=None, max_rel_err=None, error_budget_ratio=None)
        self.names: dict[str, str] = {}
        """ModelNew's name of each parameter, by the reference's name, if the names differ."""
        self._left_out: dict[str, None] = {}  # notes on draws left out, each once, in order
        self.ran: tuple[str, ...] = ()
        """Signatures of the kernels that the draws launched on the emulator; empty on a GPU."""
        self._drawn, self._conditions, self._records = 0, Dealer(), CallRecords(job.library_ops)
        self._seed, self._parameters_seed, self._strength = 0, 0, 1.0
        tightened = job.admission.tightened if job.admission else ()
        given = (x.shape for x in trace.inputs if isinstance(x, TensorSpec))
        self._few = protocol.few(given, (y.shape for y in trace.outputs))
        plan = protocol.plan(job.protocol, tightened, self._few)
        self._plan = protocol.with_secret_check(plan, secrets.randbelow)
        reference = workspace.oracle_folder(folder) / "reference.py"
        reference.write_text(source)
        self._given: dict[str, Any] = {}
        self._unexplained: tuple[Finding, str | None] | None = None
        """Finding of a mismatch whose cause is not yet known, and the family of its inputs, or None."""
        self._noop: NoopWorker | None = None
        timed = job.measure and backend.device == "cuda"
        with selection.joined(backend, 1 + timed) as (mine, theirs):
            argv = [sys.executable, "-P", "-m", ORACLE]
            argv += [str(reference), str(folder), backend.device, selection.named(mine)]
            self._reference = Child(
                argv, env=backend.trusted_environment(), passed=mine,
                server=job.servers.for_trusted(),
            )  # fmt: skip
            self.oracle = OracleClient(self._reference, job.problem.name)
            worker = selection.worker(backend, job, folder, trace, theirs[0], tool)
            self.candidate = WorkerClient(worker, job, trace, folder, backend, self.limits)
            self.reuse = ReusedOutputs(self.candidate, job.protocol, self._records.may_run)
            if timed:
                self._noop = NoopWorker(job, trace, backend, workspace.noop_folder(folder), theirs[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        end_all(self._reference, *([self._noop.child] if self._noop is not None else []))

    def end(self) -> None:
        """End the candidate's process."""
        self.candidate.child.kill()

    def bounded(self) -> Job:
        """Return the job with the time limit of one call at the trial's sizes, for further calls."""
        return self._job.model_copy(update={"candidate_timeout_s": self.limits.call.seconds})

    @property
    def findings(self) -> list[Finding]:
        """Warnings and notes on the candidate so far."""
        return self.candidate.findings

    def load(self, *, ahead: bool = False) -> None:
        """Import the candidate, which may build its extensions.

        With `ahead`, the worker initialises its GPU context while it waits for a build.
        """
        self.candidate.load(ahead=ahead)
        self._at_import = len(self._backend.requests)

    @property
    def asked(self) -> tuple[BuildRequest, ...]:
        """Builds that the import of the candidate's file requested."""
        return tuple(self._backend.requests[: self._at_import])

    @property
    def asked_later(self) -> tuple[BuildRequest, ...]:
        """Builds that `__init__` and forward requested during the draws."""
        return tuple(self._backend.requests[self._at_import : self._until_now])

    @property
    def build(self) -> Build | None:
        """All builds so far as one record, or None."""
        return self._backend.built()

    def environment(self) -> Environment:
        """Return the software and hardware that the verdict applies to."""
        return Environment(**self.oracle.environment(), compiler=self._backend.compiler)

    def verify(self, announce: Announce) -> None:
        """Run every draw of every parameter set. Raises Refused."""
        everything = sum(len(draws) for draws in self._plan)
        begun = 0
        for number, draws in enumerate(self._plan):
            if not draws:
                continue
            first, seed = self._parameters_seed, secret_seed()
            is_second = number > 0 and interleaved.fits(self._given)
            announce("making an instance")
            with self.using():
                self._instance(seed, f"set{number}", wide=number > 0, keeps_former=is_second)
            self._parameters_seed = seed
            drawn, owed = dict[str, Any](), False
            for draw in draws:
                begun += 1
                announce(f"verifying, draw {begun} of {everything}")
                owed |= draw.checked  # if a checked draw is left out, the next draw is checked instead
                with self.using():
                    drawn = self._drawn_for(draw, f"draw{begun}", drawn)
                    if drawn:
                        self._call(protocol.checking(draw, owed), f"draw{begun}", drawn)
                        owed = False
                        if is_second:
                            self._call_former(first, drawn)
                            is_second, drawn = False, {}
            if number == 0 and self._backend.suppressor is not None:
                announce("repeating a call without the kernels")
                with self.using():
                    self._ablate()
        if self._job.protocol != "large":  # kernels were replayed at the smaller sizes before
            announce("repeating the kernels alone")
            self._check_own_kernels()
        self._until_now = len(self._backend.requests)
        if self._backend.device == "cpu":
            told = self.candidate.tell(to_worker(worker_commands.Kernels()), "telling which kernels ran")
            self.ran = kernel_coverage.kernels(told)
            launch_limits.require_startable(told, self._on_a_gpu(), self._backend.locate)
            self.reuse.check_computing(slots=self._records.take_slots())

    def using(self) -> AbstractContextManager[None]:
        """Return the section in which a draw or a call runs; on a GPU it is shared with other trials."""
        return nullcontext()

    def _call_former(self, seed: int, drawn: dict[str, Any]) -> None:
        """Judge a call of the first instance, whose parameters have seed `seed`, with a second one alive."""
        workspace.discard(self._folder, drawn["stem"])
        present, self._parameters_seed = self._parameters_seed, seed

        def call() -> None:
            self.oracle.ask(to_oracle(oracle_commands.Parameters(seed, "former-set")))
            self._call(Draw(), "former", self._drawn_for(Draw(), "former", {}))

        try:
            interleaved.call_former(self.candidate, call)
        except faults.Refused as refused:
            raise faults.under("a second instance alive", refused) from None
        self._parameters_seed = present
        self.oracle.ask(to_oracle(oracle_commands.Parameters(present, "present-set")))

    def _instance(self, seed: int, stem: str, *, wide: bool = False, keeps_former: bool = False) -> None:
        """Make a new ModelNew with the parameters drawn from `seed`."""
        parameters, doing = to_oracle(oracle_commands.Parameters(seed, stem, wide)), "creating ModelNew"
        made = self.oracle.ask(parameters)
        self.limits.learn(**self.oracle.ask(to_oracle(oracle_commands.Duration())))
        self._strength = min(self._strength, made["strength"])
        answer = self.candidate.tell(instance(made, keeps_former=keeps_former), doing)
        if not self.names and parameter_assignment.misfits(answer):
            self.names = parameter_assignment.found(
                self.bounded(), self._trace, self.candidate, self.oracle, answer
            )
            answer = self.candidate.tell(instance(self.oracle.ask(parameters)), doing)
        self.candidate.check(answer, "run", f"{doing} failed")

    def skipped(self) -> tuple[str, ...]:
        """Return notes for the scope on draws that were left out, each with the reason."""
        less = (*protocol.skipped(self._job.protocol, self._few), *protocol.weakened(self._strength))
        return (*less, *self._left_out)

    def cover(self, announce: Announce) -> kernel_coverage.Coverage:
        """Return the kernels that only the real sizes launch; the process cannot compute afterwards."""
        announce("looking for kernels that only the real sizes launch")
        problem, source = self._job.problem, self._job.candidate.source
        trace_of = self.oracle.trace_of
        return kernel_coverage.looked(problem, source, self.ran, self.candidate, self._backend, trace_of)

    def check_addresses(self, real: Trace, announce: Announce) -> tuple[str, ...]:
        """Check addresses at the sizes of `real`, and return notes on skipped parts; see `real_shapes`."""
        announce("checking addresses at the real sizes")
        judged = Judged(self._trace, self._records.operators(), self._job.library_ops, self._on_a_gpu())
        left_out = reach(self.candidate.child, self._backend, real, judged)
        try:
            # A candidate whose sources contain the sizes builds other sources at the real sizes.
            self._backend.raise_build_failure()
        except faults.Refused as refused:
            if refused.status is not Status.UNSUPPORTED:
                raise
            left_out += (f"addresses at the real shape: {refused}",)
        return left_out

    def _drawn_for(self, draw: Draw, stem: str, before: dict[str, Any]) -> dict[str, Any]:
        """Return the description of a draw's inputs, empty for a family that the reference refuses."""
        if before:
            workspace.discard(self._folder, before["stem"])
        if draw.repeat:
            return self.oracle.ask(to_oracle(oracle_commands.Again(stem))) | {"stem": stem}
        self._seed = self._seed if draw.family == protocol.NEAR else secret_seed()
        drawn = self.oracle.ask(to_oracle(oracle_commands.Draw(self._seed, stem, draw.family, draw.in_place)))
        self._left_out |= dict.fromkeys(drawn.pop("fixed", ()))
        if "left_out" in drawn:
            if drawn["left_out"]:
                self._left_out[f"{protocol.WORDS[str(draw.family)]}: {drawn['left_out']}"] = None
            return {}
        self.limits.learn(**self.oracle.ask(to_oracle(oracle_commands.Duration())))
        return drawn | {"stem": stem}

    def _call_on(self, drawn: dict[str, Any], draw: Draw, stem: str) -> dict[str, Any]:
        self._given = drawn
        command = call(
            drawn, f"{stem}-out", send_back=f"{stem}-after",
            checked=draw.checked and not self._job.unchecked,
            keep_all=workspace.exchanged_bytes(self._trace) <= workspace.KEPT_BYTES,
            conditions=self._conditions.deal(checked=draw.checked, secret=draw.secret),
        )  # fmt: skip
        return self.candidate.tell(command, "running forward")

    def _call(self, draw: Draw, stem: str, drawn: dict[str, Any]) -> None:
        with self._watch.call():
            answer = self._call_on(drawn, draw, stem)
        self._drawn += 1
        try:
            self.candidate.check(answer, "run", "forward failed")
            outputs = answer.get("outputs")
            if not isinstance(outputs, dict) or outputs.get("stem") != f"{stem}-out":
                raise faults.Refused(Status.REJECTED, "verify", [faults.protocol_violation()])
            verdict = self._judged(outputs, answer, f"{stem}-after", draw)
            self.reuse.allowed = answer["overlaps"]
            if self._backend.device == "cpu":
                on = Drawn(self._parameters_seed, self._seed, draw, outputs.get("tree"))
                self._records.add(self._folder, on, self.candidate.launches)
        except faults.Refused as refused:
            raise faults.under(protocol.WORDS.get(draw.family or ""), refused) from None
        for part in ("out", "after-input", "after-parameter", "after-output"):
            workspace.discard(self._folder, f"{stem}-{part}")
        self.correctness = worst_errors.after(self.correctness, self._drawn, verdict)

    def _judged(
        self, outputs: dict[str, Any], claims: dict[str, Any], after: str, draw: Draw
    ) -> dict[str, Any]:
        reply = self.oracle.weigh(judged(outputs, claims, after, repeat=draw.repeat))
        if "finding" in reply:
            found = Finding.model_validate(reply["finding"])
            if reply["status"] == Status.INCORRECT:
                self._unexplained = found, draw.family
            raise faults.Refused(Status(reply["status"]), "verify", [found])
        if "left_out" in reply:
            self._left_out[f"{protocol.WORDS[str(draw.family)]}: {reply['left_out']}"] = None
        return reply

    def explained(self, findings: tuple[Finding, ...], announce: Announce) -> tuple[Finding, ...]:
        """Return the findings of a refusal, with the cause of a mismatch if one is found.

        The verdict already stands, so the search may even end the oracle's process.
        """
        if self._unexplained is None:
            return findings
        found, family = self._unexplained
        announce("looking for the cause")
        candidate = Diagnosed(self.bounded(), self.candidate, self._followed)
        with self.using():
            self.mismatch = mismatch_diagnosis.picture(self.oracle)
            cause = mismatch_diagnosis.cause(found, candidate, self.oracle)
        refused = faults.Refused(Status.INCORRECT, "verify", [cause, *findings[1:]])
        return faults.under(protocol.WORDS.get(family or ""), refused).findings

    def _ablate(self) -> None:
        """Raise Refused if a call is right without the launches of the candidate's own kernels."""
        drawn = self._drawn_for(Draw(), "ablated", self._given)
        self.candidate.check(self._call_on(drawn, Draw(), "ablated"), "run", "forward failed")
        kernel_attribution.check_ablation(self.candidate.tell, self.oracle.fits, drawn["output_bytes"])

    def _check_own_kernels(self) -> None:
        """Raise Refused if replays without host code show that other code computes the result."""
        evidence = self._evidence()
        if evidence is not None:
            self._records.check(evidence, self._backend.locate, self._call_once_more)

    def _followed(self) -> where_commands.Where | None:
        """Return the values that the last judged call's kernels wrote, or None if none is replayed."""
        evidence = self._evidence()
        return evidence and followed_replay.written(self._records.last(self._folder), evidence)

    def _evidence(self) -> Evidence | None:
        """Return the resources for replays, or None if the backend replays nothing."""
        given = repeating.evidence(self._job, self._backend, self._folder, self._trace, self.oracle)
        return given and given._replace(
            only_fresh=self._watch.in_forward, timeout_s=self.limits.call.seconds, on_a_gpu=self._on_a_gpu()
        )

    def _on_a_gpu(self) -> launch_limits.Limits:
        return launch_limits.Limits(self.build.kernels if self.build else (), self._backend.requests)

    def _call_once_more(self, seed: int) -> None:
        """Judge one more call, on inputs drawn from `seed`."""
        # The oracle may hold other parameters since the last call.
        self.oracle.ask(to_oracle(oracle_commands.Parameters(self._parameters_seed, "later-set")))
        self._seed = seed
        try:
            self._call(Draw(), "later", self.oracle.ask(to_oracle(oracle_commands.Draw(seed, "later"))))
        except faults.Refused:
            self._unexplained = None  # the caller decides what a failure of this call means
            raise
