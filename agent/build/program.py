"""Identity of a built candidate, equal for texts that differ only in parts that compilers ignore.

Device code is compared as nvcc's PTX, host code as the output of nvcc's front end, and the surrounding Python
as a syntax tree. Programs that are not known to be equal count as different, for example if a line number
is part of the code, or if sources are built at run time.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from agent.build.build_request import BINDINGS, BuildRequest
from agent.build.cuda_text import without_comments
from agent.build.source_map import CANDIDATE
from agent.python_source import syntax_tree
from agent.records import digest

PTX, HOST = "cuda.ptx", "cuda.cudafe1.cpp"
"""Intermediate files that nvcc keeps when it compiles `cuda.cu`."""
SOURCES = "cuda_sources"
"""File name in compiler messages for lines of a request that are not in the candidate's text."""
_MODULE = re.compile(r"_[0-9a-f]{8}_7_cuda_cu_[0-9a-f]{8}")
_FROM = re.compile(r'# \d+ "(?P<file>[^"]*)"')
_PLACE = re.compile(r"# \d+\s*$")
_NO_CODE = re.compile(r"\s*(?://|\.loc\b|\.file\b|$)")


def of_device(scratch: Path) -> str | None:
    """Return the identity of the device unit that nvcc compiled in `scratch`, or None without its files."""
    try:
        ptx, host = ((scratch / name).read_text(errors="replace") for name in (PTX, HOST))
    except OSError:
        return None
    device = "\n".join(line for line in ptx.splitlines() if not _NO_CODE.match(line))
    return digest(_MODULE.sub("", device), _MODULE.sub("", _own(host)))


def of_request(request: BuildRequest, device: str | None) -> str | None:
    """Return the identity of a request, given that of its `device` code, or None if it is unknown."""
    if device is None and request.cuda.strip():
        return None
    others = request.model_dump(exclude={"name", "candidate_source", "cpp_sources", "cuda_sources"})
    return digest(device or "", " ".join(without_comments(request.cpp).split()), repr(others))


def of_candidate(source: str, requests: Iterable[BuildRequest], programs: Iterable[str | None]) -> str | None:
    """Return the identity of a candidate, given its requests and their identities (`programs`).

    Returns None without requests, or if an identity is unknown.
    """
    known = [program for program in programs if program is not None]
    asked = list(requests)
    if not asked or len(known) < len(asked):
        return None
    try:
        tree = syntax_tree(source)
        built = {text for request in asked for text in (*request.cpp_sources, *request.cuda_sources)}
        return digest(ast.dump(_Without(built).visit(tree)), *known)
    except (SyntaxError, RecursionError):
        return None


class _Without(ast.NodeTransformer):
    """Transformer that drops string constants that are built, as their identities are compared instead."""

    def __init__(self, texts: set[str]) -> None:
        self._texts = texts

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:  # noqa: N802 - as ast calls it
        return ast.Constant(value=...) if node.value in self._texts else node


def _own(host: str) -> str:
    """Return the part of nvcc's host output that comes from the candidate, without kernel bodies."""
    kept: list[str] = []
    is_own, left_out = False, 0
    for line in host.splitlines():
        origin = _FROM.match(line)
        if origin:
            is_own = origin["file"] in (CANDIDATE, SOURCES, BINDINGS)
        elif line.startswith("#if 0") or (left_out and line.startswith("#if")):
            left_out += 1
        elif left_out:
            left_out -= line.startswith("#endif")
        elif is_own and not _PLACE.match(line):
            kept.append(line)
    return " ".join(" ".join(kept).split())
