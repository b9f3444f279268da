"""C++ text as a compiler reads it: lines are spliced first, then comments and literals separated from code.

A backslash at the end of a line joins it with the next line, even with white space after the backslash, as in
g++ and nvcc. Raw strings are not spliced. Trigraphs do not exist in the C++ standard that torch builds with.
"""

import re
from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import NamedTuple

_SPLICE = re.compile(r"\\[ \t\v\f]*\r?\n")
_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?(?:\*/|\Z) )
    | (?<!\w) (?:u8|[uUL])?R"(?P<delimiter>[^\s()\\]{0,16})\(
    | " (?: \\. | [^"\\\n] )* "
    | (?<!\w) ' (?: \\. | [^'\\\n] )+ '
    """,
    re.DOTALL | re.VERBOSE,
)


class Logical(NamedTuple):
    """Spliced text in two forms, in which parts are replaced by an equal number of spaces."""

    code: str
    """Text without comments and literals."""
    uncommented: str
    """Text without comments, and with empty strings in place of raw ones; other literals stay."""
    joints: tuple[int, ...]
    """Positions at which lines were joined."""

    def line(self, position: int) -> int:
        """Return the line of the original text, counted from 0, at a position in `code`."""
        return self.code.count("\n", 0, position) + bisect_right(self.joints, position)


def logical(text: str) -> Logical:
    """Return the text with spliced lines; `Logical.line` maps its positions to original lines."""
    spans = [match.span() for match in _SPLICE.finditer(text)]
    spliced = _SPLICE.sub("", text)
    removed = list(accumulate(end - start for start, end in spans))
    # Positions in the spliced text at which a splice was removed.
    joints = [start - before for (start, _), before in zip(spans, [0, *removed], strict=False)]
    starts = [start for start, _ in spans]

    def original(position: int) -> int:
        count = bisect_right(joints, position)
        return position + (removed[count - 1] if count else 0)

    def spliced_at(position: int) -> int:
        count = bisect_left(starts, position)
        return min(position - (removed[count - 1] if count else 0), len(spliced))

    code, uncommented, at = [], [], 0
    while match := _TOKEN.search(spliced, at):
        start, end = match.span()
        is_raw = match["delimiter"] is not None
        if is_raw:
            closing = f'){match["delimiter"]}"'
            found = text.find(closing, original(end - 1))
            end = max(end, spliced_at(found + len(closing))) if found >= 0 else len(spliced)
        gap, blank = spliced[at:start], re.sub(r"[^\n]", " ", spliced[start:end])
        code += [gap, blank]
        kept = '""' + blank[2:] if is_raw else blank if match["comment"] is not None else spliced[start:end]
        uncommented += [gap, kept]
        at = end
    rest = spliced[at:]
    return Logical("".join([*code, rest]), "".join([*uncommented, rest]), tuple(joints))
