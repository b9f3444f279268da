"""Findings from the log of a failed stock `load_inline` build, mapped to lines of the candidate's file.

The text is that of the exception: the output of ninja, g++, nvcc, ptxas and ld, or the loader's message.
Torch puts one `#include` before cpp_sources in main.cpp and three before cuda_sources in cuda.cu. It puts the
bindings of `functions` after cpp_sources (torch/utils/cpp_extension.py, `load_inline`). No file of the build
is opened.
"""

import re

from agent.build import compile_findings, compiler, source_map
from agent.build.build_request import BINDINGS, BuildRequest
from agent.build.compiler import Message
from agent.build.nvcc import messages as nvcc_messages
from agent.records import Finding
from agent.torch_shim.finding_kinds import FindingKind

MAIN_HEADERS, CUDA_HEADERS = 1, 3
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
_NO_INIT = re.compile(r"does not define module export function \((\w+)\)")
_ENVIRONMENT = re.compile(
    r"Ninja is required|CUDA_HOME environment variable is not set|No CUDA GPUs|Unknown CUDA arch|nvcc: not "
    r"found"
    r"|Permission denied|No space left on device|detected CUDA version .* mismatches"
)


def findings(log: str, request: BuildRequest) -> tuple[Finding, ...]:
    """Return at least one finding.

    If nothing is understood, the finding holds the first words that look like an error.
    """
    missing = _UNDEFINED.findall(log)
    if missing:
        text = "\n".join(
            f"undefined reference to `{name}'" for name in nvcc_messages.demangled(missing, parameters=True)
        )
        return compile_findings.of_link(text, request)
    said = [*compiler.parse(log), *nvcc_messages.parse(log)]
    found = compile_findings.of_messages([_mapped(message, request) for message in said], request)
    if found:
        return found
    if re.search(r"undefined reference to|multiple definition of", log):
        return compile_findings.of_link(log, request)
    return (_of_ptxas(log) or _of_loader(log) or _unknown(log),)


def _mapped(message: Message, request: BuildRequest) -> Message:
    """Map the message's places to the candidate's file or the generated bindings."""
    file, line = _place(message.file, message.line, request)
    context = tuple(_place(*place, request) for place in message.context)
    notes = [(_file(file), text) for file, text in message.notes]
    return Message(message.severity, file, line, message.text, context, notes)


def _file(name: str) -> str:
    """Return the candidate for a file of the build, else the name itself; notes carry no line."""
    return source_map.CANDIDATE if name.rpartition("/")[2] in ("main.cpp", "cuda.cu") else name


def _place(path: str, line: int, request: BuildRequest) -> tuple[str, int]:
    name = path.rpartition("/")[2]
    if name not in ("main.cpp", "cuda.cu"):
        return path, line
    text, headers = (request.cpp, MAIN_HEADERS) if name == "main.cpp" else (request.cuda, CUDA_HEADERS)
    inside = line - (headers if request.implicit_headers else 0)
    lines = source_map.locate(text, request.candidate_source)
    if 0 < inside <= len(lines):
        own = lines[inside - 1]
        return (source_map.CANDIDATE, own) if own else (name, line)
    if name == "main.cpp" and inside > len(lines):
        # In the generated bindings one line opens the module and one line follows for each function.
        return BINDINGS, inside - len(lines) - 1
    return name, line


def _of_ptxas(log: str) -> Finding | None:
    """Report an error of ptxas; the lines that it names refer to a file that no longer exists."""
    faults = nvcc_messages.faults(log)
    if not faults:
        return None
    text = faults[0].text
    shared = nvcc_messages.over_shared_limit(text)
    missing = re.search(r"Unresolved extern function '(\w+)'", text)
    kind, message = (
        (FindingKind.SHARED_MEMORY_LIMIT, shared[1]) if shared else ("compile-error", f"ptxas: {text}")
    )
    if missing:
        name = nvcc_messages.demangled([missing[1]])[0]
        kind, message = (
            "undefined-function",
            f"Device code calls `{name}`, which is declared and not defined.",
        )
    return Finding(kind=kind, message=message, evidence=f"ptxas: {text}")


def _of_loader(log: str) -> Finding | None:
    entry = _NO_INIT.search(log)
    if entry is None:
        return None
    message = (
        f"The library was built and has no entry `{entry[1]}`: pass `functions`, or write a PYBIND11_MODULE "
        f"with "
        "TORCH_EXTENSION_NAME."
    )
    return Finding(kind="no-module", message=message, evidence=compile_findings.clean(entry[0]))


def _unknown(log: str) -> Finding:
    """Report a log that is not understood as a load error of the machine or as a compile error."""
    machine = _ENVIRONMENT.search(log)
    words = _first_line(log)
    kind = "load-error" if machine or "ImportError" in log else "compile-error"
    return Finding(kind=kind, message=words, evidence=compile_findings.clean(log)[-2_000:])


def _first_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if "error" in line.lower()]
    said = lines or log.strip().splitlines() or ["The build failed without a word."]
    return compile_findings.clean(said[0])[:400]
