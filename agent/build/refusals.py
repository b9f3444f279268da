"""Reasons to refuse a build request before it is compiled: flags, includes, and invalid names."""

import re

from agent.build import compile_findings, flags
from agent.build.build_request import BuildRequest, binding_line
from agent.build.logical_text import logical
from agent.build.source_map import locate
from agent.records import Finding

_INCLUDE = re.compile(
    r"^[^\S\n]*(?:#|%:)[^\S\n]*(?:include|include_next|embed|import)\b([^\n]*)", re.MULTILINE
)
# Matches a header's name below the include directories, but no macro, absolute path or `..`.
_HEADER = re.compile(r"""(?!.*\.\.)["<]\w[\w./+-]*[">]""")


def of_request(request: BuildRequest) -> tuple[Finding, ...]:
    """Return findings on flags, names and includes that the request must not have."""
    found = []
    for option in ("extra_cflags", "extra_cuda_cflags"):
        for flag in flags.effective(getattr(request, option))[1]:
            found.append(_flag(request, option, flag))
    found += [_flag(request, "extra_ldflags", flag) for flag in flags.refused_links(request.extra_ldflags)]
    found += [_flag(request, "extra_include_paths", path) for path in request.extra_include_paths]
    if not re.fullmatch(r"\w+", request.name):
        shown = repr(request.name[:80])
        message = f"`name` becomes part of a C identifier, and {shown} cannot: use letters, digits and `_`."
        location = compile_findings.at_line(request, binding_line(request, request.name))
        found.append(Finding(kind="not-a-name", message=message, location=location))
    for function in request.functions or {}:
        if not re.fullmatch(r"[A-Za-z_]\w*", function):
            location = compile_findings.at_line(request, binding_line(request, function))
            message = f"`functions` takes names, not signatures: `{function[:120]}` is no name."
            found.append(Finding(kind="not-a-name", message=message, location=location))
    return (*found, *_foreign_includes(request))


def _foreign_includes(request: BuildRequest) -> list[Finding]:
    """Return findings on includes by path, as compiler messages would reveal the included file's contents."""
    found = []
    for text in (request.cpp, request.cuda):
        places = locate(text, request.candidate_source)
        read = logical(text)
        for included in _INCLUDE.finditer(read.uncommented):
            if not _HEADER.fullmatch(included[1].strip()):
                location = compile_findings.at_line(request, places[read.line(included.start())])
                shown = included[1].strip()[:80]
                message = f"#include of {shown}: only headers of the toolkit, torch and C++ are there."
                found.append(Finding(kind="include-not-allowed", message=message, location=location))
    return found


def _flag(request: BuildRequest, option: str, flag: str) -> Finding:
    mend = "use optimisation, architecture and definition flags only"
    if "std" in flag:
        mend = "torch's headers need C++17 or later"
    elif re.search(r"(?:sm|compute|lto)_\d", flag):
        mend = "name an architecture that nvcc knows, or leave it to torch"
    elif flag.startswith(("-D", "-U")):
        mend = "define names of your own only, none of the language or of a header"
    return Finding(
        kind="flag-not-allowed",
        message=f"{option} has `{flag}`, which is not taken here: {mend}.",
        location=compile_findings.at_line(request, binding_line(request, flag)),
    )
