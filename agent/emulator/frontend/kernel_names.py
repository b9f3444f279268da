"""Kernels that say which they are: a launch through a pointer or from a template does not tell.

Every definition of a kernel gets a beginning (`KW_KERNEL` of `kw/device.h`) by which it says its signature,
with template arguments, instead of running. Launches make use of that only where `KW_KERNELS_NAMED` ends the
unit.
"""

import re

from agent.build.cuda_text import RewriteError, closing, code_only, directives, without_attributes

COMPLETE = "KW_KERNELS_NAMED"
"""Stands at the end of a unit each of whose kernels has its beginning."""

_KERNEL = re.compile(r"\b__global__\b")
_BEGINNING = " KW_KERNEL "
_CLUSTER = re.compile(r"\b__cluster_dims__\s*(?=\()")


def with_names(text: str) -> tuple[str, bool]:
    """The text with those beginnings, every line where it was; whether there are kernels and all have one.

    One that a macro makes, or whose definition cannot be read, has none.
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
    """What says the cluster of a kernel whose body begins at `place`, where one is declared."""
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
    """Where the body begins of the kernel whose `__global__` ends at `start`; 0 for a mere declaration."""
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
