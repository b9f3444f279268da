"""Search for the source line of a candidate that contains given tokens; None if the line is ambiguous."""

import re

from agent.records import Location

LINES = 1
"""Maximum number of equally good lines; with more, no line is named."""
STATEMENT = 8
"""Maximum number of lines of a launch statement with its arguments."""
LAUNCH = "<<<"
INTEGER = r"\bint \w+ = \w+\[|\(int\)|__float2int|floor|trunc|rint|round"
"""Regular expression of a line that converts a number to an integer."""
_CODE = re.compile(r"[;{]\s*(?://.*)?$")
_NOTHING = re.compile(r"^\s*(?://|#|\*|/\*|import |from )|__global__|cpp_sources|torch::Tensor \w+\(")


def statement(source: str, number: int) -> list[str]:
    """Return the lines from `number` (counted from 1) to the end of the statement that begins there."""
    lines = source.split("\n")[number - 1 : number - 1 + STATEMENT]
    end = next((place for place, line in enumerate(lines) if line.rstrip().endswith((";", "{", "}"))), -1)
    return lines[: end + 1] if end >= 0 else lines[:1]


def find(source: str, tokens: str) -> Location | None:
    """Return the line with the most distinct matches of the regular expression; None if several lines tie."""
    if not tokens:
        return None
    pattern = re.compile(tokens)
    hits = [
        (len({found.group() for found in pattern.finditer(text)}), -number)
        for number, text in enumerate(source.splitlines(), 1)
        if pattern.search(text) and (LAUNCH in text or _CODE.search(text)) and not _NOTHING.search(text)
    ]
    if not hits:
        return None
    most = max(count for count, _ in hits)
    best = [-number for count, number in hits if count == most]
    if len(best) > LINES:
        return None
    number = min(best)
    return Location(line=number, text=source.splitlines()[number - 1].strip())
