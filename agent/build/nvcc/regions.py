"""Find the lines of cuda_sources that are device code, and the line of each kernel."""

import re
from collections.abc import Iterator

from agent.build.build_request import BuildRequest
from agent.build.cuda_text import RewriteError, closing, code_only, directives
from agent.build.source_map import candidate_line, locate

_MARK = re.compile(r"\b__(?:global|device)__\b")
_KERNEL = re.compile(r"\b__global__\b")


def device_lines(request: BuildRequest) -> frozenset[int]:
    """Return the compiler's line numbers of every `__global__` or `__device__` function or lambda."""
    code = code_only(request.cuda)
    places = locate(request.cuda, request.candidate_source)
    found: set[int] = set()
    for start, end in _functions(code):
        first, last = code.count("\n", 0, start) + 1, code.count("\n", 0, end) + 1
        found |= {candidate_line(places, number) for number in range(first, last + 1)}
    return frozenset(found)


def _functions(code: str) -> Iterator[tuple[int, int]]:
    ends = [end for _, end in directives(code)]
    for mark in _MARK.finditer(code):
        start = max(code.rfind(end, 0, mark.start()) for end in ";{}") + 1
        start = max([start, *(end for end in ends if end <= mark.start())])
        # The function includes a `template <...>` on the lines before it, but no blank lines.
        start += len(code[start : mark.start()]) - len(code[start : mark.start()].lstrip())
        opened = _body(code, mark.end())
        if opened is not None:
            try:
                yield start, closing(code, opened)
            except RewriteError:
                yield start, len(code)


def _body(code: str, position: int) -> int | None:
    """Return the position of the brace that opens the body of a declaration, or None without a body.

    The declaration continues at `position`.
    """
    depth = 0
    for index in range(position, len(code)):
        character = code[index]
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif depth == 0 and character == "{":
            return index
        if character == ";" and depth == 0 or depth < 0:
            return None
    return None


def kernel_line(request: BuildRequest, name: str) -> int | None:
    """Return the candidate's line that defines the kernel `name`, ignoring template arguments."""
    base = name.split("<")[0].split("(")[0].split("::")[-1].strip()
    code = code_only(request.cuda)
    places = locate(request.cuda, request.candidate_source)
    for mark in _KERNEL.finditer(code):
        named = re.compile(rf"\b{re.escape(base)}\s*\(").search(code, mark.end(), mark.end() + 2000)
        if base and named and ";" not in code[mark.end() : named.start()]:
            return places[code.count("\n", 0, named.start())]
    return None
