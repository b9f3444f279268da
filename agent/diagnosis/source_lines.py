"""Which line of a candidate does a thing, by the words that such a line holds; None where that is unclear."""

import re

from agent.records import Location

LINES = 1
"""Where more lines fit equally well, none is named."""
STATEMENT = 8
"""Lines that a launch with its arguments takes, at most."""
LAUNCH = "<<<"
INTEGER = r"\bint \w+ = \w+\[|\(int\)|__float2int|floor|trunc|rint|round"
"""A line that makes an integer of a number."""
_CODE = re.compile(r"[;{]\s*(?://.*)?$")
_NOTHING = re.compile(r"^\s*(?://|#|\*|/\*|import |from )|__global__|cpp_sources|torch::Tensor \w+\(")


def statement(source: str, number: int) -> list[str]:
    """The lines from `number` on, counted from 1, up to the end of the statement that begins there."""
    lines = source.split("\n")[number - 1 : number - 1 + STATEMENT]
    end = next((place for place, line in enumerate(lines) if line.rstrip().endswith((";", "{", "}"))), -1)
    return lines[: end + 1] if end >= 0 else lines[:1]


def find(source: str, tokens: str) -> Location | None:
    """The line that the regular expression meets most specifically: fewest lines in all, else none."""
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
