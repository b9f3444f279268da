"""A source as numbered lines, coloured, with what was found at each of them.

Numbers count as Python counts, which is how findings point. The CUDA inside a candidate's strings is coloured
as CUDA. What is longer than `text.LONGEST_TEXT` is cut, and nothing longer than COLOURED is coloured.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup, escape

from agent.records import Finding
from agent.store.history import source_lines
from agent.viewer.text import cut, visible

COLOURED = 60_000
"""Characters; a lexer made of regular expressions is not let loose on more of somebody's text."""

_CLASSES = (
    ("Comment.Preproc", "pp"),
    ("Comment", "co"),
    ("Keyword.Type", "ty"),
    ("Keyword", "kw"),
    ("Name.Builtin", "ty"),
    ("Name.Function", "fn"),
    ("Name.Class", "fn"),
    ("Literal.String", "st"),
    ("Literal.Number", "nu"),
)
"""Beginnings of pygments' token names and the class that colours them; the first that fits wins."""


class Line(NamedTuple):
    number: int
    text: Markup
    findings: tuple[Finding, ...]
    """Those that point here; at the last line, those that point behind it."""


class Listing(NamedTuple):
    lines: tuple[Line, ...]
    left_out: int
    """Characters that were cut off."""


def listing(source: str, findings: Sequence[Finding] = ()) -> Listing:
    begun = cut(source)
    texts = _lines(begun.text)
    at: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.location is not None and finding.location.line is not None:
            at.setdefault(min(max(finding.location.line, 1), len(texts)), []).append(finding)
    lines = (Line(number, text, tuple(at.get(number, ()))) for number, text in enumerate(texts, 1))
    return Listing(tuple(lines), begun.left_out)


def _lines(source: str) -> list[Markup]:
    plain = source_lines(source)
    coloured = _coloured(source) if len(source) <= COLOURED else []
    return coloured if len(coloured) == len(plain) else [escape(visible(line)) for line in plain]


def _coloured(source: str) -> list[Markup]:
    lines = [Markup()]
    for css, group in groupby(_tokens(source.removesuffix("\n")), key=lambda token: token[0]):
        for index, part in enumerate("".join(text for _, text in group).split("\n")):
            if index:
                lines.append(Markup())
            if part and css:
                lines[-1] += Markup('<i class="{}">{}</i>').format(css, visible(part))
            else:
                lines[-1] += escape(visible(part))
    return lines


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    """Class and text of each token; a string over several lines is read as CUDA C++."""
    # Not at import: the runs page needs none of it.
    from pygments.lexers.c_like import CudaLexer
    from pygments.lexers.python import PythonLexer

    options = {"stripnl": False, "ensurenl": False}
    python, cuda = PythonLexer(**options), CudaLexer(**options)
    kinds = ((str(kind).removeprefix("Token."), text) for kind, text in python.get_tokens(source))
    for is_string, group in groupby(kinds, key=lambda token: _is_literal(token[0])):
        tokens = list(group)
        text = "".join(part for _, part in tokens)
        if is_string and "\n" in text:
            tokens = [(str(kind).removeprefix("Token."), part) for kind, part in cuda.get_tokens(text)]
        yield from ((_css(kind), part) for kind, part in tokens)


def _is_literal(kind: str) -> bool:
    return kind.startswith("Literal.String") and not kind.startswith("Literal.String.Doc")


def _css(kind: str) -> str:
    return next((css for beginning, css in _CLASSES if kind.startswith(beginning)), "")
