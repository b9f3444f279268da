"""Automatic mends of faults that have a single correct mend, without asking a model.

`mended` is a pure function of a candidate's source and its findings. It declares, includes, imports, renames
and moves code, but never changes arithmetic. The result is judged like any other candidate. A fault that
could be mended in two ways is left alone.
"""

from collections.abc import Callable, Sequence
from difflib import unified_diff

from agent.mend import declarations, modules, spelling
from agent.mend.extension import Extension
from agent.python_source import syntax_tree
from agent.records import Attempt, Candidate, Finding, Record, Status

__all__ = ["MOST_IN_A_ROW", "Mended", "difference", "fix", "following", "line", "mended"]

MOST_IN_A_ROW = 3
"""Maximum number of consecutive mends of one answer. Each may reveal a fault that the one before hid."""

Mender = Callable[[Extension, Finding], Extension | None]
"""Function that returns the mended extension, with `did` extended, or None without a single right mend."""

_MENDERS: dict[str, Mender] = {
    "missing-declaration": declarations.declare,
    "cpp-sources-missing": declarations.declare,
    "signature-mismatch": declarations.agree,
    "not-a-name": declarations.name_functions,
    "kernel-bound-to-python": declarations.bind_launcher,
    "device-code-in-cpp-sources": declarations.move_device_code,
    "multiple-definition": declarations.define_once,
    "double-binding": declarations.bind_once,
    "extern-c": spelling.without_extern_c,
    "shared-type-clash": spelling.shared_as_bytes,
    "data-ptr-type": spelling.data_ptr,
    "deprecated-call": spelling.current_calls,
    "missing-include": spelling.include,
    "missing-import": modules.import_name,
    "no-model-new": modules.name_model,
}


class Mended(Record):
    """A candidate's source after its mends."""

    source: str
    did: tuple[str, ...]
    """Description of each change in one phrase: `declared scale_cuda in cpp_sources`."""


def fix(attempt: Attempt) -> Candidate | None:
    """Return the candidate that mends an attempt, or None if it is verified or cannot be mended."""
    parent = attempt.candidate
    found = attempt.evaluation.findings
    made = mended(parent.source, found) if attempt.evaluation.status is not Status.VERIFIED else None
    if made is None:
        return None
    return Candidate(
        problem=parent.problem,
        source=made.source,
        origin="mend",
        parent=parent.id,
        note=f"mended: {'; '.join(made.did)}",
    )


def line(first: Attempt, judge: Callable[[Candidate], Attempt | None]) -> tuple[Attempt, ...]:
    """Judge an attempt's mend, the mend of that, and so on; return all attempts, the last one to build on.

    The sequence ends before a mend that could not be judged.
    """
    made = [first]
    while child := following(made):
        judged = judge(child)
        if judged is None:
            break
        made.append(judged)
    return tuple(made)


def following(made: Sequence[Attempt]) -> Candidate | None:
    """Return the next mend to judge after an attempt and its mends so far, or None."""
    child = fix(made[-1]) if len(made) <= MOST_IN_A_ROW else None
    return None if child is None or child.id in {attempt.candidate.id for attempt in made} else child


def difference(parent: Attempt, child: Attempt) -> str:
    """Return the mend as a unified diff of the two files."""
    before, after = (attempt.candidate.source.splitlines() for attempt in (parent, child))
    names = (f"attempt {parent.number}", f"attempt {child.number}")
    return "\n".join(unified_diff(before, after, *names, n=1, lineterm=""))


def mended(source: str, findings: Sequence[Finding]) -> Mended | None:
    """Return the source with all mendable findings mended, or None if there are none."""
    try:
        extension = Extension.read(source)
    except SyntaxError:
        return None
    for finding in findings:
        mender = _MENDERS.get(finding.kind)
        made = mender(extension.about(finding), finding) if mender and finding.severity == "error" else None
        extension = made or extension
    if not extension.did or extension.source == source or not _parses(extension.source):
        return None
    return Mended(source=extension.source, did=extension.did)


def _parses(source: str) -> bool:
    try:
        syntax_tree(source)
    except SyntaxError:
        return False
    return True
