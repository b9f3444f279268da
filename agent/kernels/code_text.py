"""Text of a source file without comments, docstrings and blank lines.

A verdict stands for as long as the code does. A better comment does not make a kernel unverified.
"""

import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

from agent.build.cuda_text import without_comments

_OPENS_A_STATEMENT = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


def code(path: Path) -> str:
    """Return the code of a Python, C++ or CUDA file as text."""
    text = path.read_text(encoding="utf-8")
    bare = _without_remarks(text) if path.suffix == ".py" else without_comments(text, in_place=False)
    return "\n".join(line.rstrip() for line in bare.splitlines() if line.strip())


def _without_remarks(text: str) -> str:
    """Return Python text without comments and docstrings."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    kept, end = [], 0
    for (first_line, first), (last_line, last) in _spans(text):
        kept.append(text[end : starts[first_line - 1] + first])
        end = starts[last_line - 1] + last
    return "".join([*kept, text[end:]])


def _spans(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield start and end of each comment and docstring as line and column."""
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type != tokenize.NL]
    code_tokens = [t for t in tokens if t.type != tokenize.COMMENT]
    alone = {
        t.start
        for place, t in enumerate(code_tokens[:-1])
        if t.type == tokenize.STRING
        and code_tokens[place + 1].type == tokenize.NEWLINE
        and (place == 0 or code_tokens[place - 1].type in _OPENS_A_STATEMENT)
    }
    yield from ((t.start, t.end) for t in tokens if t.type == tokenize.COMMENT or t.start in alone)
