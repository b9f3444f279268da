"""Findings for CUDA C++ constructs that the emulator does not run, and for text that it cannot parse."""

from agent.build import compile_findings
from agent.build.build_request import BuildRequest
from agent.build.source_map import locate
from agent.emulator.frontend import constructs, rewrite
from agent.emulator.ptx import Untranslated
from agent.records import Finding


def findings(request: BuildRequest) -> tuple[Finding, ...]:
    """Return a finding for each construct that the emulator does not run."""
    found = []
    for text in (request.cuda, request.cpp):
        places = locate(text, request.candidate_source)
        for construct in constructs.unsupported(text):
            found.append(
                Finding(
                    kind="unsupported-construct",
                    message=f"The emulator does not run {construct.name}; a GPU may.",
                    location=compile_findings.at_line(request, places[construct.line - 1]),
                )
            )
    return tuple(found)


def may_run_from_ptx(request: BuildRequest) -> bool:
    """Return True if NVIDIA's compiler can translate all unsupported constructs of the request to PTX."""
    names = {
        construct.name for text in (request.cuda, request.cpp) for construct in constructs.unsupported(text)
    }
    return names <= constructs.MAY_RUN_FROM_PTX


def untranslated(
    error: Untranslated, found: tuple[Finding, ...], request: BuildRequest
) -> tuple[Finding, ...]:
    """Return `found` with the unsupported PTX instruction added to the message of its first finding."""
    place = compile_findings.at_line(request, error.line) or found[0].location
    message = (
        f"{found[0].message} NVIDIA's compiler makes `{error.instruction}` of it, which is not known here."
    )
    return (found[0].model_copy(update={"message": message, "location": place}), *found[1:])


def from_ptx_alone(reason: Finding) -> str:
    """Return the scope note for kernels that ran from PTX without a rewritten source."""
    place = reason.location
    why = f" (line {place.line}: {place.text})" if place and place.line else ""
    return f"indices of arrays within one variable: the kernels ran from NVIDIA's code alone{why}"


def unreadable(error: rewrite.RewriteError, request: BuildRequest) -> Finding:
    """Return the finding for text that the rewriter could not parse."""
    places = locate(request.cuda, request.candidate_source)
    line = places[error.line - 1] if 0 < error.line <= len(places) else None
    return Finding(kind="compile-error", message=str(error), location=compile_findings.at_line(request, line))
