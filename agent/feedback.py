"""Feedback for the next prompt: the text of an evaluation, or of an answer without usable code.

This module only renders: the harness decides the verdict, the findings' order and their text. Text from
compilers and candidates is stripped of control characters and truncated by lines. The number of omitted lines
is stated.
"""

import re
import unicodedata
from collections.abc import Iterable

from agent.errors import ReplyError
from agent.records import (
    Attempt,
    Evaluation,
    Feedback,
    Finding,
    KernelResources,
    Location,
    Measurement,
    Status,
)

FINDINGS = 5
"""Maximum number of findings shown in full. The first is the headline."""
EVIDENCE_LINES = 20
LINE_CHARACTERS = 240

_TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")


def on_reply(error: ReplyError) -> Feedback:
    """Return the feedback on an answer without a candidate."""
    return Feedback(attempt=None, kind=error.kind, text=_plain(str(error)))


def on_evaluation(attempt: Attempt) -> Feedback:
    """Return the feedback on a judged attempt. Its kind is that of the headline finding, or `verified`."""
    evaluation = attempt.evaluation
    if evaluation.status is Status.VERIFIED:
        lines, kind = _verified(evaluation), "verified"
    else:
        headline = evaluation.headline
        kind = headline.kind if headline else evaluation.status.value
        lines = [f"{evaluation.status.value}, found at stage {evaluation.stage} ({evaluation.scope})."]
        if evaluation.withdrawn:
            lines.append("The first look had verified it; a second one, by other means, refuses it.")
    for number, finding in enumerate(evaluation.findings[:FINDINGS], 1):
        lines += ["", *_finding(number, finding)]
    left = evaluation.findings[FINDINGS:]
    if left:
        kinds = ", ".join(dict.fromkeys(finding.kind for finding in left))
        lines += ["", f"And {len(left)} more: {kinds}."]
    return Feedback(attempt=attempt.number, kind=kind, text="\n".join(lines))


def _finding(number: int, finding: Finding) -> Iterable[str]:
    severity = "" if finding.severity == "error" else f"{finding.severity}, "
    times = f", {finding.count} times" if finding.count > 1 else ""
    yield f"{number}. [{severity}{finding.kind}{times}] {_plain(finding.message)}"
    if finding.location:
        yield from (f"   {line}" for line in _place(finding.location))
    if finding.evidence:
        yield from (f"   | {line}" for line in _cut(_plain(finding.evidence)))


def _place(location: Location) -> Iterable[str]:
    if location.line is not None:
        text = f": {_plain(location.text).strip()}" if location.text else ""
        yield f"line {location.line}{text}"[:LINE_CHARACTERS]
    elif location.text:
        yield f"at: {_plain(location.text).strip()}"[:LINE_CHARACTERS]
    where = [
        f"kernel {_plain(location.kernel)}" if location.kernel else "",
        f"block {location.block}" if location.block else "",
        f"thread {location.thread}" if location.thread else "",
    ]
    if any(where):
        yield "in " + ", ".join(word for word in where if word)


def _verified(evaluation: Evaluation) -> list[str]:
    lines = [f"verified ({evaluation.scope})."]
    exact = evaluation.correctness
    if exact and exact.error_budget_ratio is not None:
        used = 100 * exact.error_budget_ratio
        lines.append(f"Error: {used:.3g}% of what is allowed, worst of {exact.draws} draws.")
    measured = evaluation.measurement
    lines += _times(measured) if measured else ["No time was measured."]
    if evaluation.build:
        lines += [_resources(kernel) for kernel in evaluation.build.kernels]
    return lines


def _times(measured: Measurement) -> Iterable[str]:
    own = measured.candidate_ms
    yield f"Time on {measured.gpu}: {own.p50:.4g} ms (p20 {own.p20:.4g}, p80 {own.p80:.4g})."
    named = (
        ("eager", measured.eager_ms),
        ("torch.compile", measured.compile_ms),
        ("eager in a CUDA graph", measured.graph_ms),
        *measured.more_ms.items(),
    )
    for name, other in named:
        if other:
            yield f"{name}: {other.p50:.4g} ms, {other.p50 / own.p50:.3g} times this time."
    if measured.roofline_fraction is not None:
        yield f"Roofline: {100 * measured.roofline_fraction:.3g}% of what memory or arithmetic allow."


def _resources(kernel: KernelResources) -> str:
    known = {
        "registers": kernel.registers,
        "bytes spilled": kernel.spill_bytes,
        "bytes of shared memory": kernel.shared_bytes,
    }
    words = ", ".join(f"{value} {name}" for name, value in known.items() if value is not None)
    return f"Kernel {_plain(kernel.name)}: {words or 'no compiler statistics'}."


def _cut(text: str) -> Iterable[str]:
    """Yield the first lines, each of bounded length, and the number of omitted lines."""
    lines = text.strip("\n").split("\n")
    for line in lines[:EVIDENCE_LINES]:
        over = len(line) - LINE_CHARACTERS
        yield line if over <= 0 else f"{line[:LINE_CHARACTERS]} ... ({over} more characters)"
    if len(lines) > EVIDENCE_LINES:
        yield f"... ({len(lines) - EVIDENCE_LINES} more lines)"


def _plain(text: str) -> str:
    """Remove terminal sequences and control, format and surrogate characters. Line ends are kept."""
    text = _TERMINAL_SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\t", "    ")
    return "".join(c for c in text if c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs"})
