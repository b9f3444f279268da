"""Detection of candidates that test for the emulator by preprocessor, through its headers or their macros.

A macro counts as the candidate's own once the text has defined it unconditionally. Code outside directives
may use the names of the emulator's macros freely.
"""

import re
from functools import cache
from itertools import accumulate
from pathlib import Path

from agent.build import compile_findings
from agent.build.build_request import BuildRequest
from agent.build.logical_text import logical
from agent.build.source_map import locate
from agent.records import Finding
from agent.torch_shim.finding_kinds import FindingKind

_HEADERS = Path(__file__).resolve().parents[1] / "cpp"
_OWN = re.compile(r"^[ \t]*#[ \t]*(define|undef)[ \t]+(KW_\w+)", re.MULTILINE)
_DIRECTIVE = re.compile(r"[ \t]*(?:#|%:)[ \t]*(\w+)(.*)")
_DEEPER = {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1}
_HEADER = re.compile(r'["<]\s*kw\s*/')


def findings(request: BuildRequest) -> tuple[Finding, ...]:
    """Return one finding for each directive that names a header or macro of the emulator."""
    found = []
    for text in (request.cuda, request.cpp):
        places = locate(text, request.candidate_source)
        read = logical(text)
        for start, what in _asked(read.uncommented):
            message = f"A directive asks for {what}, which is the emulator's: no CUDA program has it."
            place = compile_findings.at_line(request, places[read.line(start)])
            found.append(Finding(kind=FindingKind.EMULATOR_TAMPERED, message=message, location=place))
    return tuple(found)


def _asked(text: str) -> list[tuple[int, str]]:
    """Return offset and name for each directive that names a header or macro of the emulator."""
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    found: list[tuple[int, str]] = []
    given: set[str] = set()
    depth = 0
    for start, line in zip(starts, lines, strict=False):
        directive = _DIRECTIVE.match(line)
        if directive is None:
            continue
        word, rest = directive.groups()
        own = sorted((set(re.findall(r"\w+", rest)) & _visible()) - given)
        defined = re.match(r"\s*(\w+)", rest) if word == "define" and depth == 0 else None
        if defined is not None and own == [defined[1]]:
            given.add(defined[1])
        elif own:
            found.append((start, f"`{own[0]}`"))
        elif _HEADER.search(rest):
            found.append((start, "a header `kw/...`"))
        depth += _DEEPER.get(word, 0)
    return found


@cache
def _visible() -> frozenset[str]:
    """Return the macros that the emulator's headers leave defined."""
    texts = [path.read_text(encoding="utf-8") for path in (*_HEADERS.rglob("*.h"), *_HEADERS.rglob("*.inc"))]
    told = [mention for text in texts for mention in _OWN.findall(text)]
    return frozenset({name for word, name in told if word == "define"}) - {
        name for word, name in told if word == "undef"
    }
