"""The last stage on the emulator: one call at the sizes of the problem itself, for its addresses only.

A kernel that is right at smaller sizes may still overflow a 32-bit index, ask for a grid or for shared memory
that no GPU has, or fill an array of a fixed size. Memory is reserved and not there, a sample of the blocks
runs, and values are never compared (`emulator/cpp/runtime/sampling.cpp`). What depends on values is told from
what does not by a second call over other values: a finding counts only if both have it, place and address.
"""

from collections.abc import Callable
from typing import Any

from agent.diagnosis.runtime import python_errors
from agent.harness.backends.backend import Backend
from agent.harness.integrity.launch_limits import Limits, claimed
from agent.harness.messages import worker_answers
from agent.harness.messages.commands import to_worker
from agent.harness.task import faults
from agent.harness.worker import worker_commands
from agent.records import Finding, Status, TensorSpec, Trace
from agent.sandbox import Child, ChildFault, TimedOut

LIMIT_S = 30.0
"""Of each call. A candidate that takes longer is not checked so; that is no verdict."""

Ask = Callable[[dict[str, Any], float], dict[str, Any]]
Read = Callable[[dict[str, Any]], list[Finding]]


def reach(worker: Child, backend: Backend, real: Trace, on_a_gpu: Limits) -> tuple[str, ...]:
    """Checks the candidate that `worker` holds; what was left out. Raises Refused for what it finds."""

    def ask(command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        return worker_answers.ask(worker, backend, command, limit_s)

    def read(answer: dict[str, Any]) -> list[Finding]:
        seen = faults.device_findings(backend.resolve(answer.get("device_findings")), backend.locate)
        return [*seen, *map(backend.locate, on_a_gpu.refused(claimed(answer)))]

    found, left_out = check(ask, read, real)
    if found:
        raise faults.Refused(Status.RUNTIME_ERROR, "verify", found)
    return left_out


def check(ask: Ask, read: Read, real: Trace) -> tuple[list[Finding], tuple[str, ...]]:
    """Errors that the real sizes bring to light, and what could not be looked at, for the scope.

    `ask` sends a command to the candidate's process, whose answer `read` turns into findings.
    """
    found: list[Finding] = []
    for numbers in (False, True):
        asked = command(real, numbers=numbers)
        if asked is None:
            return [], (_left_out("an input of the reference is neither a tensor nor a plain value"),)
        try:
            answer = ask(asked, LIMIT_S)
        except ChildFault as fault:
            return [], (
                _left_out(
                    f"the call gave {fault}" if isinstance(fault, TimedOut) else f"the process {fault}"
                ),
            )
        errors = [finding for finding in read(answer) if finding.severity == "error"]
        found = [finding for finding in errors if not numbers or _known(finding, found)]
        if not found:
            return [], _notes(answer)
    return found, ()


def command(real: Trace, *, numbers: bool, host_only: bool = False) -> dict[str, Any] | None:
    """What the worker needs; None where the trace holds a value only as its text."""
    values = [*real.init_inputs, *(value for value in real.inputs if not isinstance(value, TensorSpec))]
    if any(isinstance(value, str) and "(" in value for value in _leaves(values)):
        return None
    inputs: list[dict[str, Any]] = [
        {"shape": list(value.shape), "dtype": value.dtype}
        if isinstance(value, TensorSpec)
        else {"value": value}
        for value in real.inputs
    ]
    return to_worker(worker_commands.RealShapes(list(real.init_inputs), inputs, numbers, host_only))


def _leaves(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (list, tuple, dict)):
        return [value]
    return [leaf for item in items for leaf in _leaves(item)]


def _known(finding: Finding, earlier: list[Finding]) -> bool:
    """Whether it was found before, at the same thread and address, which the message tells."""
    return any(
        (f.kind, f.location, f.message) == (finding.kind, finding.location, finding.message) for f in earlier
    )


def _notes(answer: dict[str, Any]) -> tuple[str, ...]:
    notes = answer.get("notes")
    reasons = [str(note)[:300] for note in notes[:8]] if isinstance(notes, list) else []
    if "error" in answer:
        error = python_errors.finding(answer["error"], "the call failed", "")
        reasons.append(error.message[:300])
    return tuple(_left_out(reason) for reason in reasons)


def _left_out(reason: str) -> str:
    return f"addresses at the real shape: {reason}"
