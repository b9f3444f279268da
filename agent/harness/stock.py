"""Reads what stock `load_inline` said when a build failed, with the lines of the candidate's own file.

torch puts one `#include` before cpp_sources in main.cpp, three before cuda_sources in cuda.cu, and the
bindings of `functions` behind cpp_sources (torch/utils/cpp_extension.py, `load_inline`).
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.emulator import build_findings, compiler, source_map
from agent.emulator.build import Built
from agent.emulator.compiler import Message
from agent.emulator.units import BINDINGS, BuildRequest
from agent.records import Finding

LANE = "load_inline"
MAIN_HEADERS, CUDA_HEADERS = 1, 3
_NVCC = re.compile(r"^(?P<file>[^\s(]+)\((?P<line>\d+)\): (?P<kind>error|warning)[^:]*: (?P<text>.*)$")
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
_KEPT_LOG = 20_000


LISTS = ("cpp_sources", "cuda_sources", "extra_cflags", "extra_cuda_cflags", "extra_ldflags",
         "extra_include_paths")  # fmt: skip


def asked(report: Mapping[str, Any], candidate_source: str) -> BuildRequest:
    """The request that a call of `load_inline` made; torch takes one text where it takes a list of them.

    Raises ValueError for arguments that torch would not have taken either.
    """
    known = {key: value for key, value in report.items() if key in BuildRequest.model_fields}
    for key in (*LISTS, "functions"):
        if isinstance(known.get(key), str):
            known[key] = [known[key]]
    return BuildRequest(candidate_source=candidate_source, **known)


def nvcc_version(environment: Mapping[str, str]) -> str | None:
    """`nvcc 13.0.88`, of the compiler that `load_inline` takes; None where it does not say."""
    tool = nvcc(environment)
    try:
        answer = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False, timeout=20)
    except OSError:
        return None
    match = re.search(r"\bV([0-9.]+)", answer.stdout)
    return f"nvcc {match[1]}" if match else None


def compilers(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The installations of the compilers that `load_inline` starts, for a sandbox to show."""
    named = (environment.get(name, "") for name in ("CC", "CXX", "CUDAHOSTCXX"))
    tools = {Path(tool) for tool in (nvcc(environment), *named) if Path(tool).is_absolute()}
    ends = {end for tool in tools if tool.is_file() for end in (tool, tool.resolve())}
    return tuple(sorted({end.parents[1] for end in ends if len(end.parts) > 3}))


def nvcc(environment: Mapping[str, str]) -> str:
    """The compiler that `load_inline` takes."""
    home = environment.get("CUDA_HOME")
    return shutil.which(str(Path(home) / "bin" / "nvcc") if home else "nvcc") or "/usr/local/cuda/bin/nvcc"


def built(request: BuildRequest, seconds: float, log: str | None) -> Built:
    """The build as the worker reported it; `log` is the exception's text, None where there was none."""
    if log is None:
        # The library is the worker's own and is never opened here; its place only says that there is one.
        return Built(library=Path("built-in-worker"), seconds=seconds, lane=LANE)
    found = _findings(request, log) or (
        Finding(kind="compile-error", message=_first_line(log), evidence=build_findings.clean(log)[-2_000:]),
    )
    return Built(
        library=None, seconds=seconds, lane=LANE, findings=found, log=build_findings.clean(log)[-_KEPT_LOG:]
    )


def _findings(request: BuildRequest, log: str) -> tuple[Finding, ...]:
    missing = _UNDEFINED.findall(log)
    if missing:
        text = "\n".join(f"undefined reference to `{name}'" for name in _demangled(missing))
        return build_findings.of_link(text, request)
    messages = [_mapped(message, request) for message in [*compiler.parse(log), *_of_nvcc(log)]]
    found = build_findings.of_messages(messages, request)
    if not found and "undefined reference to" in log:
        return build_findings.of_link(log, request)
    return found


def _of_nvcc(log: str) -> Iterator[Message]:
    for line in log.splitlines():
        match = _NVCC.match(line)
        if match:
            yield Message(match["kind"], match["file"], int(match["line"]), match["text"])


def _mapped(message: Message, request: BuildRequest) -> Message:
    """The message with its place in the candidate's file, or in the generated bindings."""
    name = Path(message.file).name
    if name not in ("main.cpp", "cuda.cu"):
        return message
    text, headers = (request.cpp, MAIN_HEADERS) if name == "main.cpp" else (request.cuda, CUDA_HEADERS)
    headers = headers if request.implicit_headers else 0
    lines = source_map.locate(text, request.candidate_source)
    inside = message.line - headers
    if 0 < inside <= len(lines):
        line = lines[inside - 1]
        file = source_map.CANDIDATE if line else name
        return Message(
            message.severity, file, line or message.line, message.text, message.context, message.notes
        )
    if name == "main.cpp" and inside > len(lines):
        # One line opens the module, then each function has its own.
        bound = inside - len(lines) - 1
        return Message(message.severity, BINDINGS, bound, message.text, message.context, message.notes)
    return message


def _demangled(names: list[str]) -> list[str]:
    tool = shutil.which("c++filt")
    if tool is None:
        return names
    answer = subprocess.run([tool, *names], capture_output=True, text=True, check=False, timeout=20)
    return answer.stdout.split("\n")[: len(names)] if answer.returncode == 0 else names


def _first_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if "error" in line.lower()]
    said = lines or log.strip().splitlines() or ["The build failed without a word."]
    return build_findings.clean(said[0])[:400]
