"""Explanation of a failed build: each error under its own kind, root cause first, consequences folded.

The input is the findings read from the compilers' messages (`emulator.build_findings`, `load_inline_log`) and
their request. Names, causes and fixes are added; the compiler's own words stay in the evidence. Findings that
blame the emulator stay unchanged.
"""

import difflib
import re
from collections.abc import Sequence

from agent.build.build_request import BuildRequest
from agent.build.source_map import locate
from agent.diagnosis import source_lines
from agent.diagnosis.build import compiler_messages, cpp_functions
from agent.diagnosis.build.cpp_functions import Function
from agent.records import Finding, Location

_DEVICE_WORDS = re.compile(
    r"\b(?:blockIdx|threadIdx|blockDim|gridDim|warpSize|__\w+__|__syncthreads|__shfl\w*|atomicAdd)\b|<<<"
    r"|'<' token"
)
_INTERNAL = re.compile(r"\b(?:kw|KW)_\w+|\bkw::")
_MOST_CAUSES = 3
# A single mistake of these kinds causes many errors, and fixing it ends them all.
_ONCE = ("device-code-in-cpp-sources", "double-binding", "syntax-error")


def explained(findings: Sequence[Finding], request: BuildRequest) -> tuple[Finding, ...]:
    """Return the findings of one failed build, headline first; at least one if there was one."""
    if any(finding.kind == "header-gap" for finding in findings[:1]):
        return tuple(findings)
    named = [_named(finding, request) for finding in findings]
    return _folded(named)


def _named(finding: Finding, request: BuildRequest) -> Finding:
    if finding.kind == "missing-declaration":
        return _of_missing_declaration(finding, request)
    if finding.kind == "undefined-function":
        return _of_undefined(finding, request)
    if finding.kind != "compile-error":
        return finding
    line = finding.location.text or "" if finding.location else ""
    if _is_device_code_for_gxx(finding, request):
        return _device_code_in_cpp_sources(finding, request)
    if "PYBIND11_MODULE" in line and request.functions is not None:
        message = (
            "The sources hold a PYBIND11_MODULE, and `functions` generates another: leave one of the two "
            "out, as a "
            "rule the PYBIND11_MODULE."
        )
        return finding.model_copy(update={"kind": "double-binding", "message": message})
    place = finding.location.line if finding.location else None
    statement = "\n".join(source_lines.statement(request.candidate_source, place)) if place else ""
    meant = compiler_messages.meaning(finding.message, line, statement)
    if meant is None:
        return finding
    # Keep the compiler's words if the evidence lacks them.
    evidence = finding.evidence if finding.message in (finding.evidence or "") else _joined(finding)
    message = meant.message
    if meant.kind == "undeclared-name":
        message = _declared_below(finding, request) or message
    return finding.model_copy(update={"kind": meant.kind, "message": message, "evidence": evidence})


def _declared_below(finding: Finding, request: BuildRequest) -> str | None:
    """Report a function that is defined further down than its use."""
    used = finding.location.line if finding.location else None
    for text in (request.cuda, request.cpp):
        places = locate(text, request.candidate_source)
        for function in cpp_functions.functions(text):
            line = places[text.count("\n", 0, function.start)]
            if re.search(rf"['\"]{function.name}['\"]", finding.message) and line and used and used < line:
                return (
                    f"`{function.name}` is used here and declared further down, at line {line}: move its "
                    "definition up, or declare it before."
                )
    return None


def _joined(finding: Finding) -> str:
    return f"{finding.message}\n{finding.evidence}" if finding.evidence else finding.message


def _is_device_code_for_gxx(finding: Finding, request: BuildRequest) -> bool:
    """Return True if the error is in cpp_sources and arises because g++ does not know CUDA."""
    place = finding.location.line if finding.location else None
    if place is None or not cpp_functions.has_device_code(request.cpp):
        return False
    if place not in locate(request.cpp, request.candidate_source):
        return False
    line = finding.location.text if finding.location else ""
    return bool(_DEVICE_WORDS.search(f"{finding.message} {line}"))


def _device_code_in_cpp_sources(finding: Finding, request: BuildRequest) -> Finding:
    bound = [name for name in request.functions or {} if name in cpp_functions.kernels(request.cpp)]
    if bound and all(kernel.body is None for kernel in cpp_functions.kernels(request.cpp).values()):
        return finding.model_copy(update=_kernel_bound(bound[0], request))
    message = (
        "cpp_sources holds device code, and g++ compiles that string: kernels and the functions that launch "
        "them "
        "belong in cuda_sources; cpp_sources only declares the functions that are bound."
    )
    return finding.model_copy(update={"kind": "device-code-in-cpp-sources", "message": message})


def _kernel_bound(name: str, request: BuildRequest) -> dict[str, str]:
    launchers = _launchers(name, request)
    launcher = f"`{launchers[0]}`, which launches it" if launchers else "a C++ function that launches it"
    message = (
        f"`{name}` is a `__global__` kernel, which Python cannot call: bind {launcher}, declared in "
        "cpp_sources and listed in `functions`, instead."
    )
    return {"kind": "kernel-bound-to-python", "message": message}


def _launchers(kernel: str, request: BuildRequest) -> list[str]:
    """Return the host functions that launch the kernel."""
    found = cpp_functions.host_definitions(request.cuda).values()
    pattern = re.compile(rf"\b{re.escape(kernel)}\s*(?:<(?!<)[^;]*?>\s*)?<<<")
    return [f.name for f in found if f.body and pattern.search(request.cuda[slice(*f.body)])]


def _of_missing_declaration(finding: Finding, request: BuildRequest) -> Finding:
    named = re.match(r"`(\w+)`", finding.message)
    if named is None or named[1] not in {
        **cpp_functions.kernels(request.cuda),
        **cpp_functions.kernels(request.cpp),
    }:
        return finding
    if named[1] in cpp_functions.host_definitions(request.cuda):
        return finding
    return finding.model_copy(update=_kernel_bound(named[1], request))


def _of_undefined(finding: Finding, request: BuildRequest) -> Finding:
    """Compare a declared but undefined symbol with the nearest definition."""
    if "data_ptr<" in finding.message:
        return finding.model_copy(update={"kind": "data-ptr-type"})
    symbol = re.search(r"undefined symbol: (.+)", finding.evidence or "")
    if symbol is None:
        return finding
    name = symbol[1].split("(")[0].split("::")[-1].split(" ")[-1]
    defined = [
        f for f in cpp_functions.functions(request.cuda) + cpp_functions.functions(request.cpp) if f.body
    ]
    same = [f for f in defined if f.name == name]
    if not same:
        near = difflib.get_close_matches(name, [f.name for f in defined if f.on_host], 1)
        hint = f"; the nearest definition is `{near[0]}`" if near else ""
        message = f"`{symbol[1]}` is declared and used, and no source defines it{hint}."
        return finding.model_copy(update={"message": message})
    message = f"`{name}` is declared as `{symbol[1]}`, and {_difference(same[0])}"
    return finding.model_copy(update={"kind": "signature-mismatch", "message": message})


def _difference(defined: Function) -> str:
    """Describe how the nearest definition differs from the declaration."""
    if "static" in defined.specifiers:
        return "its definition is `static`, which no other file sees: remove `static`."
    if 'extern "C"' in defined.specifiers:
        return 'its definition is `extern "C"`: remove that.'
    if defined.namespace:
        return (
            f"its definition stands in `namespace {defined.namespace}`: declare it there too, with a "
            f"`using`, or "
            "move it out."
        )
    return f"its definition is another function: write `{defined.declaration}` in cpp_sources."


def _folded(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Keep each named cause once, before unnamed errors; errors that follow from a cause become evidence."""
    known = [f for f in findings if f.kind != "compile-error"]
    rest = [f for f in findings if f.kind == "compile-error"]
    if known and rest:
        more = [f.evidence or f.message for f in rest if not _INTERNAL.search(f.message)]
        evidence = "\n".join([known[0].evidence or known[0].message, *more[:_MOST_CAUSES]])
        known[0] = known[0].model_copy(update={"evidence": evidence})
    kept: list[Finding] = []
    for finding in known or rest:
        cause = next((n for n, other in enumerate(kept) if _follows(finding, other)), None)
        if cause is None:
            kept.append(finding)
        elif (finding.kind, finding.message) == (kept[cause].kind, kept[cause].message):
            count = kept[cause].count + finding.count
            kept[cause] = kept[cause].model_copy(update={"count": count})
    return tuple(kept[:_MOST_CAUSES])


def _follows(finding: Finding, cause: Finding) -> bool:
    if (finding.kind, finding.message) == (cause.kind, cause.message):
        return True
    here, there = finding.location or Location(), cause.location or Location()
    if finding.kind == cause.kind == "missing-declaration":
        return False
    if here.line is not None and here.line == there.line:
        return True
    if cause.kind in _ONCE and cause.kind == finding.kind:
        return True
    # A name whose own declaration failed is not a second mistake.
    name = re.match(r"`([\w:]+)`", finding.message)
    return (
        finding.kind == "undeclared-name"
        and name is not None
        and bool(re.search(rf"\b{re.escape(name[1])}\b", there.text or ""))
        and cause.kind != "undeclared-name"
    )
