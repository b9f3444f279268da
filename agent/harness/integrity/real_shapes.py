"""Last stage on the emulator: calls at the real sizes of the problem, which check only addresses.

A kernel that is right at smaller sizes may still overflow a 32-bit index or a fixed-size array, or exceed
a GPU's grid or shared memory. Memory is reserved without being backed, a sample of the blocks runs, and
values are never compared (`emulator/cpp/runtime/sampling.cpp`). A second call on other values separates
findings that depend on values: a finding counts only if both calls have the same place and address.

The host code's behaviour is compared with its behaviour at the judged sizes. A candidate is refused if torch
operators replace its kernels at the real sizes, if it launches nothing there, or if it raises. A call at the
judged sizes without values, too, shows whether the missing values are the reason.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from agent.diagnosis.runtime import python_errors
from agent.emulator.replay import operators
from agent.harness.backends.backend import Backend
from agent.harness.integrity.launch_limits import Limits, claimed
from agent.harness.messages import worker_answers
from agent.harness.messages.commands import to_worker
from agent.harness.task import faults
from agent.harness.worker import worker_commands
from agent.records import Finding, LibraryOps, Status, TensorSpec, Trace
from agent.sandbox import Child, ChildFault, TimedOut

LIMIT_S = 30.0
"""Maximum seconds of each call. For a slower candidate, the check is skipped and noted in the scope."""

Ask = Callable[[dict[str, Any], float], dict[str, Any]]
Read = Callable[[dict[str, Any]], list[Finding]]


BEHAVES_OTHERWISE = "real-sizes-behave-differently"


class Judged(NamedTuple):
    """Facts about the calls at the judged sizes, with which the real sizes are compared."""

    trace: Trace
    operators: frozenset[str]
    """Torch operators that ran in the calls at the judged sizes."""
    setting: LibraryOps
    on_a_gpu: Limits
    """Resource limits of the candidate's kernels on a GPU."""


def reach(worker: Child, backend: Backend, real: Trace, judged: Judged) -> tuple[str, ...]:
    """Call the candidate in `worker` at the real sizes, and return notes on skipped checks.

    Raises Refused if the candidate goes out of bounds, or if something else replaces its kernels.
    """

    def ask(command: dict[str, Any], limit_s: float) -> dict[str, Any]:
        return worker_answers.ask(worker, backend, command, limit_s)

    def read(answer: dict[str, Any]) -> list[Finding]:
        seen = faults.device_findings(backend.resolve(answer.get("device_findings")), backend.locate)
        return [*seen, *map(backend.locate, judged.on_a_gpu.refused(claimed(answer)))]

    # Calls without kernels come first, as they are fast. A later call may run out of time and end the worker.
    stands_in = behaves_otherwise(ask, real, judged)
    found, left_out = check(ask, read, real)
    if found:
        raise faults.Refused(Status.RUNTIME_ERROR, "verify", found)
    if stands_in is not None:
        raise faults.Refused(Status.REJECTED, "integrity", [stands_in])
    return left_out


def behaves_otherwise(ask: Ask, real: Trace, judged: Judged) -> Finding | None:
    """Return a finding if torch operators or an exception replace the kernels only at the real sizes."""
    answer = _host_call(ask, real, numbers=False)
    if answer is None:
        return None
    raised = answer.get("error")
    apart = _apart(answer, judged)
    if apart is None or (raised is not None and _no_room(raised)):
        return None
    # If a call with other values or at the judged sizes behaves in this way too, the size is not the reason.
    others = (_host_call(ask, real, numbers=True), _host_call(ask, judged.trace, numbers=False))
    if any(other is None for other in others):
        return None
    again, small = others
    assert again is not None
    assert small is not None
    if _apart(again, judged) is None or _apart(small, judged) is not None:
        return None
    message = (
        "At the problem's own sizes this file does something else than at the smaller ones that were judged: "
        f"{apart}. Its kernels have to compute the result there as well."
    )
    return Finding(kind=BEHAVES_OTHERWISE, message=message)


def _host_call(ask: Ask, sizes: Trace, *, numbers: bool) -> dict[str, Any] | None:
    """Return the answer to a call that runs no kernels, or None if it cannot be made or the process fails."""
    asked = command(sizes, numbers=numbers, host_only=True)
    try:
        return None if asked is None else ask(asked, LIMIT_S)
    except ChildFault:
        return None


def _apart(answer: dict[str, Any], judged: Judged) -> str | None:
    """Return a description of what replaces the kernels in the answered call, or None if nothing does."""
    if "error" in answer:
        return python_errors.finding(answer["error"], "the call fails", "").message[:600]
    ran = [name for name in answer["operators"] if not operators.allowed(name, judged.setting)]
    foreign = [name.strip("_") for name in ran if name not in judged.operators]
    if foreign:
        return f"torch's {', '.join(foreign[:4])} runs, which --library-ops {judged.setting} does not allow"
    if not answer["kernels"] and not answer["notes"]:
        return "no kernel of this file is launched"
    return None


def _no_room(raised: dict[str, Any]) -> bool:
    """Return True if this machine is too small for the memory that the call needs."""
    return raised.get("type") == "MemoryError" or "out of memory" in str(raised.get("message")).lower()


def check(ask: Ask, read: Read, real: Trace) -> tuple[list[Finding], tuple[str, ...]]:
    """Return errors in addresses at the real sizes, and notes for the scope on skipped checks.

    `ask` sends a command to the candidate's process, and `read` turns its answer into findings.
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
    """Return the worker's command for a call at the sizes of `real`.

    Returns None if the trace holds an argument only as text, so that its value is unknown.
    """
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
    """Return True if `earlier` holds the finding with equal place and message, which names the address."""
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
