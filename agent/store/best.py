"""The file best.py: the best verified candidate, with a docstring that states the scope of its verdict."""

import ast
import re

from agent import __version__
from agent.python_source import syntax_tree
from agent.records import Attempt, Measurement, Problem, Status
from agent.store.disk import sync_folder, write_durably, writing
from agent.store.folder import Run
from agent.store.renaming import with_reference_names

BEST = "best.py"


def remove_best(run: Run) -> None:
    """Delete the file, after its candidate was withdrawn and no other one is verified."""
    path = run.path / BEST
    with writing(path):
        path.unlink(missing_ok=True)
        sync_folder(run.path)


def write_best(run: Run, attempt: Attempt, problem: Problem) -> None:
    """Write the attempt's source under a docstring with problem, run, scope and measurement, atomically.

    The file needs no package but torch. Raises ValueError for an attempt that is not verified,
    EnvironmentFault when the disk refuses.
    """
    if attempt.evaluation.status is not Status.VERIFIED:
        raise ValueError(f"attempt {attempt.number} is {attempt.evaluation.status}, not verified")
    path = run.path / BEST
    named = with_reference_names(attempt.candidate.source, attempt.evaluation.scope.parameters)
    source = with_docstring(named, _describe(run, attempt, problem))
    with writing(path):
        write_durably(path, source.encode("utf-8"))


def with_docstring(source: str, text: str) -> str:
    """Return the source with `text` as its module docstring, followed by the docstring it had before.

    Both go into one string: a second one would make a `from __future__` import after it a syntax error.
    """
    body = source.lstrip("\ufeff")
    own = _docstring(body)
    if own is None:
        return f'"""{_escape(text)}"""\n\n{body}'
    value, start, end = own
    rest = body[end:].lstrip(" \t\f").removeprefix(";").lstrip(" \t\f")
    return f'"""{_escape(text + chr(10) + value.strip())}\n"""\n\n{body[:start]}{rest}'


def _docstring(source: str) -> tuple[str, int, int] | None:
    """Return the value of the module docstring and its span in characters, or None without one."""
    first = next(iter(syntax_tree(source).body), None)
    if not isinstance(first, ast.Expr) or not isinstance(first.value, ast.Constant):
        return None
    # The statement's span, unlike the string's, includes parentheses around the string.
    if not isinstance(first.value.value, str) or first.end_lineno is None or first.end_col_offset is None:
        return None
    start = _offset(source, first.lineno, first.col_offset)
    return first.value.value, start, _offset(source, first.end_lineno, first.end_col_offset)


def _offset(source: str, line: int, column: int) -> int:
    """Convert a position from ast, a line from 1 and a column in UTF-8 bytes, to a character offset."""
    # Python ends a line only at these characters, unlike str.splitlines.
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source)
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def _escape(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "\\0")
    return escaped.replace("\r", "\\r")


def _describe(run: Run, attempt: Attempt, problem: Problem) -> str:
    evaluation = attempt.evaluation
    sizes = evaluation.correctness
    lines = [
        f"Verified kernel for {problem.name}, made by kernelwright {__version__}.",
        "",
        f"Run:       {run.id}, attempt {attempt.number} ({attempt.candidate.origin})",
        f"Problem:   {problem.name} (source {problem.id})",
        f"Verified:  {evaluation.scope}",
    ]
    lines += [f"Skipped:   {check}" for check in evaluation.scope.skipped]
    if sizes is not None and sizes.error_budget_ratio is not None:
        lines.append(f"Accuracy:  {sizes.error_budget_ratio:.1%} of the allowed error, {sizes.draws} draws")
    lines.append(f"Measured:  {_times(evaluation.measurement)}")
    return "\n".join(lines) + "\n"


def _times(measurement: Measurement | None) -> str:
    if measurement is None:
        return "no; nothing is said about its speed"
    times = measurement.candidate_ms
    text = f"{times.p50:.4g} ms median (p20 {times.p20:.4g}, p80 {times.p80:.4g}) on {measurement.gpu}"
    if measurement.speedup is not None:
        text += f", {measurement.speedup:.2f}x against {measurement.baseline}"
    return f"{text} ({measurement.method})"
