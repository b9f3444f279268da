"""Findings on a candidate whose kernels, replayed alone, do not account for its result."""

from collections.abc import Iterable

from agent.emulator.replay.events import OutputElsewhere
from agent.emulator.replay.program import Program
from agent.harness.task import faults
from agent.records import Finding, LibraryOps, Location

NOT_NEEDED = "own-kernels-not-needed"
UNREPEATABLE = "own-kernels-not-repeatable"
FOREIGN = "own-kernels-do-not-compute-the-result"


def unusable(error: Exception) -> Finding:
    """Return the finding on a record that is invalid or has an output where no kernel can write."""
    if isinstance(error, OutputElsewhere):
        message = (
            "This file's kernels do not compute the result: an output lies where no kernel can write, "
            "so something else made it, past what torch tells of its operators. Return what a kernel wrote."
        )
        return Finding(kind=FOREIGN, message=message)
    return faults.protocol_violation(f"the record of what its kernels did cannot be used: {error}")


def unneeded(found: Program) -> Finding:
    return Finding(
        kind=NOT_NEEDED,
        message=f"With all {found.launches} launches of this file's kernels left out the output is still "
        "right: torch's operators compute it. At least one kernel has to do part of the work.",
    )


def unrepeatable(error: str) -> Finding:
    return Finding(
        kind=UNREPEATABLE,
        message="This file's kernels cannot be run again without its host code, so that nothing shows that "
        "they compute the result: pass kernels device pointers and plain values only.",
        evidence=error,
    )


def foreign(found: Program, setting: LibraryOps) -> Finding:
    """Return a finding that names the operator that computed the result, if the record shows one."""
    writer = found.last_writer()
    rule = f"--library-ops {setting} does not allow"
    if writer is not None:
        said = f"the output is written by {writer.what}, which {rule}, not by a kernel of this file"
    elif found.omitted:
        names = _listed(dict.fromkeys(omitted.what for omitted in found.omitted))
        writer = found.omitted[0]
        said = f"part of the result comes from {names}, which {rule}"
    else:
        said = "repeated on other inputs without this file's host code they give another result: host code "
        said += "works out values on the CPU and passes them to kernels or writes them to device memory"
    location = Location(line=writer.line) if writer and writer.line else None
    message = f"This file's kernels do not compute the result: {said}."
    return Finding(kind=FOREIGN, message=message, location=location)


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")
