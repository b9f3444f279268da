"""Map each line of a built source to its line in the candidate's file.

The sources of an extension are usually string literals of the candidate, or joined from several. With the
lines known, `#line` directives make compiler messages and __LINE__ refer to the candidate's file.
"""

import ast

from agent.python_source import syntax_tree
from agent.torch_shim.c_abi import UNLOCATED_LINE

CANDIDATE = "candidate.py"
_TELLING = 8  # minimum characters for a line worth searching for


def locate(text: str, candidate: str) -> list[int | None]:
    """Return, for each line of `text`, its line in `candidate` (counted from 1), or None."""
    lines = text.split("\n")
    found: list[int | None] = [None] * len(lines)
    for first_line, value in _literals(candidate):
        start = text.find(value)
        while start >= 0:
            at = text.count("\n", 0, start)
            # Text after the literal's last line break belongs to the next literal, if there is one.
            ended = value.endswith("\n") and start + len(value) < len(text)
            for offset in range(value.count("\n") + (not ended)):
                if found[at + offset] is None:
                    found[at + offset] = first_line + offset
            start = text.find(value, start + len(value))
    _search_single_lines(lines, candidate, found)
    return found


def _literals(candidate: str) -> list[tuple[int, str]]:
    """Return first line and value of each string literal whose lines are lines of the file, longest first."""
    try:
        tree = syntax_tree(candidate)
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node.end_lineno is None:
            continue
        rows = node.end_lineno - node.lineno
        if rows == node.value.count("\n") and len(node.value.strip()) >= _TELLING:
            found.append((node.lineno, node.value))
    return sorted(found, key=lambda literal: -len(literal[1]))


def _search_single_lines(lines: list[str], candidate: str, found: list[int | None]) -> None:
    """Locate the lines of `found` that are None, if they occur exactly once in the candidate's file.

    This locates lines of sources that are built at run time.
    """
    if all(line is not None for line in found):
        return
    places: dict[str, list[int]] = {}
    for number, line in enumerate(candidate.split("\n"), 1):
        places.setdefault(line.strip(), []).append(number)
    for index, line in enumerate(lines):
        there = places.get(line.strip(), [])
        if found[index] is None and len(there) == 1 and len(line.strip()) >= _TELLING:
            found[index] = there[0]


def candidate_line(lines: list[int | None], number: int) -> int:
    """Return the candidate's line for line `number` (from 1) of the text, or UNLOCATED_LINE + `number`."""
    place = lines[number - 1] if 0 < number <= len(lines) else None
    return place if place is not None else UNLOCATED_LINE + number


def with_directives(text: str, lines: list[int | None], label: str) -> str:
    """Return `text` with #line directives wherever the line numbers are not consecutive.

    `lines` is the result of `locate`. Lines without a location are numbered from UNLOCATED_LINE under the
    file name `label`.
    """
    out: list[str] = []
    expected: tuple[str, int] | None = None
    for index, line in enumerate(text.split("\n")):
        place = lines[index]
        here = (CANDIDATE if place is not None else label, candidate_line(lines, index + 1))
        # A directive would break a macro continued from the line before.
        continued = bool(out) and out[-1].endswith("\\")
        if here != expected and not continued:
            out.append(f'#line {here[1]} "{here[0]}"')
            expected = here
        out.append(line)
        expected = (expected[0], expected[1] + 1) if expected else None
    return "\n".join(out)
