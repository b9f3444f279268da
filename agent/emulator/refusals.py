"""What of a request is not even given to a compiler: flags, includes, and constructs that do not run here."""

import re

from agent.emulator import build_findings, flags, rewrite
from agent.emulator.ptx import Untranslated
from agent.emulator.source_map import locate
from agent.emulator.units import BuildRequest, binding_line
from agent.records import Finding

_INCLUDE = re.compile(r"\s*(?:#|%:)\s*(?:include|include_next|embed|import)\b((?:[^/]|/(?![/*]))*)")
# A name below the include directories; no macro, no absolute path, no way up.
_HEADER = re.compile(r"""(?!.*\.\.)["<]\w[\w./+-]*[">]""")


def of_request(request: BuildRequest) -> tuple[Finding, ...]:
    """The candidate's own faults among them."""
    found = []
    for option in ("extra_cflags", "extra_cuda_cflags"):
        for flag in flags.effective(getattr(request, option))[1]:
            found.append(_flag(request, option, flag))
    found += [_flag(request, "extra_ldflags", flag) for flag in flags.refused_links(request.extra_ldflags)]
    found += [_flag(request, "extra_include_paths", path) for path in request.extra_include_paths]
    if not re.fullmatch(r"\w+", request.name):
        shown = repr(request.name[:80])
        message = f"`name` becomes part of a C identifier, and {shown} cannot: use letters, digits and `_`."
        location = build_findings.at_line(request, binding_line(request, request.name))
        found.append(Finding(kind="not-a-name", message=message, location=location))
    for function in request.functions or {}:
        if not re.fullmatch(r"[A-Za-z_]\w*", function):
            location = build_findings.at_line(request, binding_line(request, function))
            message = f"`functions` takes names, not signatures: `{function[:120]}` is no name."
            found.append(Finding(kind="not-a-name", message=message, location=location))
    return (*found, *_foreign_includes(request))


def unsupported(request: BuildRequest) -> tuple[Finding, ...]:
    """Constructs that the emulator does not run."""
    found = []
    for text in (request.cuda, request.cpp):
        places = locate(text, request.candidate_source)
        for construct in rewrite.unsupported(text):
            found.append(
                Finding(
                    kind="unsupported-construct",
                    message=f"The emulator does not run {construct.name}; a GPU may.",
                    location=build_findings.at_line(request, places[construct.line - 1]),
                )
            )
    return tuple(found)


def may_run_from_ptx(request: BuildRequest) -> bool:
    """Whether all of its unsupported constructs are of device code that NVIDIA's compiler translates."""
    names = {
        construct.name for text in (request.cuda, request.cpp) for construct in rewrite.unsupported(text)
    }
    return names <= rewrite.MAY_RUN_FROM_PTX


def untranslated(
    error: Untranslated, found: tuple[Finding, ...], request: BuildRequest
) -> tuple[Finding, ...]:
    """The construct `found`, by the instruction of it that is not known here."""
    place = build_findings.at_line(request, error.line) or found[0].location
    message = (
        f"{found[0].message} NVIDIA's compiler makes `{error.instruction}` of it, which is not known here."
    )
    return (found[0].model_copy(update={"message": message, "location": place}), *found[1:])


def from_ptx_alone(reason: Finding) -> str:
    """The note for the scope of kernels without a rewritten source."""
    place = reason.location
    why = f" (line {place.line}: {place.text})" if place and place.line else ""
    return f"indices of arrays within one variable: the kernels ran from NVIDIA's code alone{why}"


def unreadable(error: rewrite.RewriteError, request: BuildRequest) -> Finding:
    """What the rewriter could not read."""
    places = locate(request.cuda, request.candidate_source)
    line = places[error.line - 1] if 0 < error.line <= len(places) else None
    return Finding(kind="compile-error", message=str(error), location=build_findings.at_line(request, line))


def _foreign_includes(request: BuildRequest) -> list[Finding]:
    """An include of a file by its place on the machine would show that file in the messages."""
    found = []
    for text in (request.cpp, request.cuda):
        places = locate(text, request.candidate_source)
        for index, line in enumerate(text.split("\n")):
            included = _INCLUDE.match(line)
            if included and not _HEADER.fullmatch(included[1].strip()):
                location = build_findings.at_line(request, places[index])
                shown = included[1].strip()[:80]
                message = f"#include of {shown}: only headers of the toolkit, torch and C++ are there."
                found.append(Finding(kind="include-not-allowed", message=message, location=location))
    return found


def _flag(request: BuildRequest, option: str, flag: str) -> Finding:
    return Finding(
        kind="flag-not-allowed",
        message=f"{option} has `{flag}`, which is not taken here: use optimisation, architecture and "
        "definition flags only.",
        location=build_findings.at_line(request, binding_line(request, flag)),
    )
