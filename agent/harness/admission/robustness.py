"""Robustness probes: a verified candidate's behaviour beyond its stated problem, recorded but never judged.

Every probe is one call on inputs of another layout, size, rank or dtype
(`agent.harness.truth.input_variants`). The reference accepts these inputs with the problem's own constructor
arguments. The outputs are compared like all outputs. Probes run last, in a separate process of the candidate.
A process that a probe crashes, or leaves with a broken device, is replaced. All probes share a time limit,
and the record names the probes that the limit left out.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from agent.harness.backends.candidate_process import CandidateProcess
from agent.harness.backends.workspace import discard, exchanged_bytes
from agent.harness.messages import oracle_commands
from agent.harness.messages.commands import instance, to_oracle, to_worker
from agent.harness.messages.oracle_client import OracleClient
from agent.harness.task import faults
from agent.harness.task.faults import Refused
from agent.harness.task.job import Job, secret_seed
from agent.harness.trial.optional_checks import described
from agent.harness.worker import worker_commands
from agent.records import Envelope, Probe, Trace
from agent.records.envelope import Kind, Outcome
from agent.sandbox import ChildFault, TimedOut

LARGEST_BYTES = 256 << 20
KINDS: tuple[Kind, ...] = ("layout", "batch", "size", "rank", "dtype")
STEM = "envelope"


def probed(
    job: Job, trace: Trace, process: CandidateProcess, oracle: OracleClient,
    using: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Envelope:  # fmt: skip
    """Return the outcome of every probe of the candidate in `process`.

    Each probe runs in a context of `using`, in which the GPU may be used.
    """
    if exchanged_bytes(trace) > LARGEST_BYTES:
        return Envelope(left_out=(f"anything, since its tensors have more than {LARGEST_BYTES >> 20} MB",))
    if job.envelope_limit_s <= 0:
        return Envelope(left_out=("anything, since no time was given to it",))
    with using():
        probing = _Probing(job, process, oracle)
        found = oracle.ask(to_oracle(oracle_commands.Variants(secret_seed(), list(KINDS))))["variants"]
    probes, left_out = [], []
    try:
        with using():
            probing.start()
        deadline = time.monotonic() + job.envelope_limit_s
        for number, variant in enumerate(found):
            if time.monotonic() >= deadline:
                left_out.append(f"{variant['what']} (no time left)")
                continue
            with using():
                result = probing.outcome(number)
            if result is not None:
                probes.append(Probe(**variant, outcome=result[0], message=result[1]))
    except ChildFault as fault:
        left_out.append(f"what was left when a new process {fault}")
    return Envelope(probes=tuple(probes), left_out=tuple(left_out))


class _Probing:
    """Probes that share one set of parameters, stored in the folder of the candidate's process."""

    def __init__(self, job: Job, process: CandidateProcess, oracle: OracleClient) -> None:
        self._job, self._subject, self._oracle = job, process, oracle
        command = oracle_commands.Parameters(secret_seed(), self._stem("set"), as_files=True)
        self._manifest = oracle.ask(to_oracle(command))
        self._dtype: str | None = None
        """Dtype of the current instance's parameters, or None for the problem's own."""

    def start(self) -> None:
        """Start a process if none runs and make an instance with the parameters. Raises ChildFault."""
        if not self._subject.running:
            self._subject.load()
        self._subject.ask(instance(self._manifest), self._job.candidate_timeout_s)
        self._dtype = None

    def outcome(self, number: int) -> tuple[Outcome, str | None] | None:
        """Return the candidate's outcome on one variant, or None if the reference does not accept it.

        Raises ChildFault if no process can be started.
        """
        stem = self._stem(str(number))
        drawn = self._oracle.ask(to_oracle(oracle_commands.Variant(number, stem)))
        if "left_out" in drawn:
            return None
        if not self._subject.running:
            self.start()
        try:
            return self._called(drawn, f"{stem}-out")
        except ChildFault as fault:
            return ("hangs" if isinstance(fault, TimedOut) else "crashes"), f"its process {fault}"
        finally:
            for exchanged in (f"{STEM}{number}", f"{STEM}{number}-state", f"{STEM}{number}-out"):
                discard(self._subject.folder, exchanged)

    def _stem(self, what: str) -> str:
        """Return the path prefix of the oracle's tensors, which lies in the candidate process's folder."""
        return str(self._subject.folder / f"{STEM}{what}")

    def _called(self, drawn: dict[str, Any], stem: str) -> tuple[Outcome, str | None]:
        process = self._subject
        if drawn.get("dtype") != self._dtype:
            own: dict[str, Any] = {key: drawn[key] for key in ("state", "dtype") if key in drawn}
            answer = process.ask(instance(self._manifest | own), self._job.envelope_limit_s)
            self._dtype = drawn.get("dtype")
            if "error" in answer:
                return "raises", _said(answer["error"])
        checked, layout = not self._job.unchecked, drawn["layout"]
        command = worker_commands.Beside("try", drawn["inputs"], stem, checked, layout)
        answer = process.ask(to_worker(command), self._job.envelope_limit_s)
        assert process.backend is not None
        claims = process.backend.resolve(answer.get("device_findings"))
        found = faults.device_findings(claims, process.backend.locate)
        errors = [finding for finding in found if finding.severity == "error"]
        said = _said(answer["error"]) if "error" in answer else None
        if errors or (said and "CUDA error" in said):
            # Every later answer would repeat a device finding, and a CUDA error breaks all later calls.
            process.end()
            return ("wrong", errors[0].message) if errors else ("raises", said)
        if said is not None:
            return "raises", said
        try:
            outputs = described(answer, "outputs", stem)
            verdict = self._oracle.weigh(to_oracle(oracle_commands.CompareFiles(outputs)))
        except Refused as refused:
            return "wrong", refused.findings[0].message
        return ("wrong", str(verdict["finding"]["message"])) if "finding" in verdict else ("right", None)


def _said(error: Any) -> str:
    """Return type and first line of an exception that the worker described."""
    known = error if isinstance(error, dict) else {}
    first = next(iter(str(known.get("message", "")).splitlines()), "")
    return f"{known.get('type', 'error')}: {first}"[:300]
