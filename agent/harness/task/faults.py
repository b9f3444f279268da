"""Findings for a candidate's faults, and the exception `Refused` that ends a trial early."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from agent.diagnosis.runtime import timeouts
from agent.records import Finding, Location, Stage, Status
from agent.sandbox import ChildFault, Gone, OutputFlood, Overrun, TimedOut

__all__ = [
    "NO_LAUNCH", "SOME_CALLS", "Refused", "Stage", "changed", "device_findings", "foreign_output",
    "guard_written", "not_deterministic", "overlapping", "protocol_violation", "refused_child", "under",
]  # fmt: skip

CHANGED = {
    "input": Finding(
        kind="input-modified",
        message="forward changed its input tensors; it must leave them as they are and write to a new "
        "tensor.",
    ),
    "parameter": Finding(
        kind="parameter-modified",
        message="A parameter or buffer does not hold what load_state_dict was given: forward must leave them "
        "as they are, and load_state_dict must load them. Keep packed copies and scratch memory in tensors "
        "of your own.",
    ),
    "earlier output": Finding(
        kind="output-reused",
        message="An output returned earlier changed when forward was called again: every call must return "
        "memory of its own, not a buffer kept from call to call.",
    ),
}
OVERLAPPING = {
    "input": Finding(
        kind="output-aliases-input",
        message="forward returns memory of its input; the reference returns memory of its own, so write to "
        "a new tensor.",
    ),
    "parameter": Finding(
        kind="output-aliases-parameter",
        message="forward returns memory of a parameter or buffer; the reference returns memory of its own, "
        "so write to a new tensor.",
    ),
    "earlier output": CHANGED["earlier output"].model_copy(
        update={
            "message": "forward returned the same memory as in the call before: every call must return "
            "memory of its own, not a buffer kept from call to call."
        }
    ),
}
_MOST_FINDINGS = 256
_LONGEST = 4_000
"""Maximum number of characters of a finding's message, far above those of the emulator's findings."""
NO_LAUNCH = Finding(
    kind="no-kernel-launched",
    message="forward launched no CUDA kernel of this file: the result came from somewhere else.",
)
SOME_CALLS = Finding(
    kind="only-in-some-calls",
    message="A call before it at the same sizes was checked as well, and nothing was found: the sizes are "
    "not the reason.",
    severity="note",
)


class Refused(Exception):
    """Exception that ends a trial with a verdict other than verified."""

    def __init__(self, status: Status, stage: Stage, findings: Sequence[Finding]) -> None:
        super().__init__(findings[0].message)
        self.status, self.stage, self.findings = status, stage, tuple(findings)


def under(inputs: str | None, refused: Refused) -> Refused:
    """Return the refusal with `inputs` named in its headline message; None means the stated inputs."""
    if inputs is None:
        return refused
    headline, *rest = refused.findings
    message = f"With {inputs}: {headline.message}"
    return Refused(refused.status, refused.stage, [headline.model_copy(update={"message": message}), *rest])


def refused_child(
    fault: ChildFault, stage: Stage, doing: str, said: timeouts.LastWords, reason: str = ""
) -> Refused:
    """Return the verdict for a candidate's process that did not answer.

    `reason` is the origin of its time limit, in words.
    """
    evidence = said.log[-2_000:] or None
    if isinstance(fault, TimedOut):
        reason = f" ({reason})" if reason else ""
        return Refused(Status.TIMEOUT, stage, [timeouts.finding(f"{fault} {doing}{reason}", said)])
    if isinstance(fault, OutputFlood):
        found = Finding(kind="output-flood", message=f"The candidate {fault} {doing}.")
        return Refused(Status.RUNTIME_ERROR, stage, [found])
    if isinstance(fault, Overrun):
        found = Finding(kind="resource-limit", message=f"The candidate's process {fault}, {doing}.")
        return Refused(Status.RUNTIME_ERROR, stage, [found])
    if isinstance(fault, Gone):
        message = f"The candidate's process {fault}, {doing}."
        found = Finding(kind="process-ended", message=message, evidence=evidence)
        return Refused(Status.RUNTIME_ERROR, stage, [found])
    return Refused(Status.REJECTED, stage, [protocol_violation(str(fault))])


def protocol_violation(detail: str | None = None) -> Finding:
    return Finding(
        kind="protocol-violation",
        message="The candidate's process answered with something other than its outputs.",
        evidence=detail,
    )


def changed(kinds: Collection[str]) -> Finding | None:
    """Return the finding on the first of `input`, `parameter`, `earlier output` in `kinds`, or None."""
    return next((finding for kind, finding in CHANGED.items() if kind in kinds), None)


def overlapping(claims: Any, own: list[list[str]]) -> Finding | None:
    """Return a finding if an output shares memory with a tensor with which the reference's does not.

    An output that may alias an input may also alias an earlier output that aliased the input. Raises
    ValueError if the claims are not a list with an entry for each output.
    """
    if not isinstance(claims, list) or len(claims) != len(own):
        raise ValueError("the claims about overlaps are not those of these outputs")
    for given, allowed in zip(claims, own, strict=True):
        lies_there = any(kind in given for kind in allowed)
        for kind, finding in OVERLAPPING.items():
            if kind in given and kind not in allowed and not (lies_there and kind == "earlier output"):
                return finding
    return None


def guard_written(claims: Any) -> Finding | None:
    """Return a finding if a call wrote outside an input tensor."""
    if not claims:
        return None
    return Finding(
        kind="guard-written",
        message=f"Memory just outside input {claims[0] if isinstance(claims, list) else '?'} was written: an "
        "index runs past the tensor, check the bounds test and the grid size.",
    )


def foreign_output(types: Any, devices: Any) -> Finding | None:
    """Return a finding if an output is not exactly a torch.Tensor, or is not on the GPU."""
    for kind in types if isinstance(types, list) else ():
        if kind != "Tensor":
            message = f"forward returned an object of type {kind}; only a plain torch.Tensor counts."
            return Finding(kind="wrong-type", message=message)
    for device in devices if isinstance(devices, list) else ():
        if device != "cuda":
            message = f"forward returned a tensor on {device}, not on cuda."
            return Finding(kind="wrong-device", message=message)
    return None


def not_deterministic(finding: dict[str, Any] | None) -> Finding:
    """Return the finding for a second call on equal inputs whose outputs differ from the first call's."""
    return Finding(
        kind="not-deterministic",
        message="A second call on the same inputs gave another result, by more than rounding: a race between "
        "threads, memory that nothing initialised, or state kept from call to call.",
        evidence=str(finding["message"]) if finding else None,
    )


def device_findings(claims: list[dict[str, Any]], locate: Callable[[Finding], Finding]) -> list[Finding]:
    """Return the emulator's findings about kernels, errors first. The claims have been validated before."""
    found = [locate(_device_finding(claim)) for claim in claims[:_MOST_FINDINGS]]
    return sorted(found, key=lambda finding: finding.severity != "error")


def _device_finding(entry: dict[str, Any]) -> Finding:
    return Finding(
        kind=entry["kind"],
        message=entry["message"][:_LONGEST],
        count=max(int(entry.get("count", 1)), 1),
        severity=entry.get("severity", "error"),
        location=Location(
            line=entry.get("line"),
            kernel=kernel[:_LONGEST] if (kernel := entry.get("kernel")) else None,
            block=entry.get("block"),
            thread=entry.get("thread"),
        ),
    )
