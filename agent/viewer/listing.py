"""A source as numbered and highlighted lines, with the findings at each line.

Lines are counted as Python counts them, which is how findings refer to them. CUDA code inside a candidate's
strings is highlighted as CUDA. Text beyond `text.LONGEST_TEXT` or MOST_LINES is cut.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup, escape

from agent.records import Finding
from agent.store.history import source_lines
from agent.viewer.colours import tokens
from agent.viewer.text import cut, visible

MOST_LINES = 5_000
"""Maximum number of lines. Each is an element of the page, and no hand-written kernel is as long."""


class Line(NamedTuple):
    number: int
    text: Markup
    findings: tuple[Finding, ...]
    """Findings that point to this line; the last line also has the findings that point beyond it."""


class Listing(NamedTuple):
    lines: tuple[Line, ...]
    left_out: int
    """Number of characters of the source that are cut off."""


def listing(source: str, findings: Sequence[Finding] = ()) -> Listing:
    begun = cut(source)
    plain = source_lines(begun.text)
    texts = _lines("\n".join(plain[:MOST_LINES]))
    left_out = begun.left_out + sum(len(line) + 1 for line in plain[MOST_LINES:])
    at: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.location is not None and finding.location.line is not None:
            at.setdefault(min(max(finding.location.line, 1), len(texts)), []).append(finding)
    lines = (Line(number, text, tuple(at.get(number, ()))) for number, text in enumerate(texts, 1))
    return Listing(tuple(lines), left_out)


def _lines(source: str) -> list[Markup]:
    lines = [Markup()]
    for css, group in groupby(tokens(source), key=lambda token: token[0]):
        for index, part in enumerate("".join(text for _, text in group).split("\n")):
            if index:
                lines.append(Markup())
            shown = escape(visible(part))
            lines[-1] += Markup('<i class="{}">{}</i>').format(css, shown) if part and css else shown
    return lines
