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
            places.append(place)
    for place in reversed(places):
        text = text[:place] + _BEGINNING + text[place:]
    return text, complete and bool(places)


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
