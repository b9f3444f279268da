"""Prologues by which kernels report their names, for launches through a pointer or from a template.

Every kernel definition gets a prologue (`KW_KERNEL` in `kw/device.h`). On request the kernel reports its
signature, with template arguments, instead of running. Launches ask for signatures only if `KW_KERNELS_NAMED`
ends the unit.
"""

import re

from agent.build.cuda_text import RewriteError, closing, code_only, directives, without_attributes

COMPLETE = "KW_KERNELS_NAMED"
"""Macro at the end of a unit in which every kernel has the prologue."""

_KERNEL = re.compile(r"\b__global__\b")
_BEGINNING = " KW_KERNEL "
_CLUSTER = re.compile(r"\b__cluster_dims__\s*(?=\()")


def with_names(text: str) -> tuple[str, bool]:
    """Return the text with prologues, and True if the text has kernels and all of them have a prologue.

    Line numbers do not change. A kernel gets no prologue if a macro defines it or its definition cannot be
    parsed.
    """
    code = code_only(text)
    plain = without_attributes(code)
    macros = directives(code)
    places, complete = [], True
    for match in _KERNEL.finditer(plain):
        place = None
        if not any(start <= match.start() < end for start, end in macros):
            place = _body(plain, match.end())
        if place is None:
            complete = False
        elif place > 0:
            places.append((place, _declared_cluster(code, plain, match.start(), place)))
    for place, cluster in reversed(places):
        text = text[:place] + cluster + _BEGINNING + text[place:]
    return text, complete and bool(places)


def _declared_cluster(code: str, plain: str, start: int, place: int) -> str:
    """Return the prologue that reports the declared cluster size of a kernel, or "" without one.

    The kernel's body begins at `place`.
    """
    begin = max(plain.rfind(end, 0, start) for end in ";}{")
    found = _CLUSTER.search(code, begin + 1, place)
    if found is None:
        return ""
    try:
        dims = code[found.end() : closing(code, found.end()) + 1]
    except RewriteError:
        return ""
    return f" KW_CLUSTER{dims}"


def _body(plain: str, start: int) -> int | None:
    """Return the offset after the `{` of the kernel whose `__global__` ends at `start`.

    Return 0 for a declaration without body, and None if the text cannot be parsed.
    """
    parameters = plain.find("(", start)
    if parameters < 0 or re.search(r"[\w>]\s*$", plain[start:parameters]) is None:
        return None
    try:
        after = plain[closing(plain, parameters) + 1 :]
    except RewriteError:
        return None
    found = re.match(r"\s*(?:noexcept\s*)?([{;])", after)
    if found is None:
        return None
    return len(plain) - len(after) + found.end() if found[1] == "{" else 0
