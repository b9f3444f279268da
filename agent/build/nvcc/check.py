"""Turn nvcc's messages into findings: faults of the candidate, and possible gaps in the slim headers."""

import re
from pathlib import Path

from agent.build import compile_findings, header_gap
from agent.build.build_request import BuildRequest
from agent.build.compiler import Message, Outcome
from agent.build.nvcc import messages, regions, unit
from agent.build.nvcc.tool import Nvcc
from agent.build.source_map import CANDIDATE
from agent.build.toolchain import STANDARD, Toolchain
from agent.records import Finding, KernelResources, Record
from agent.torch_shim.finding_kinds import FindingKind

INCLUDE = Path(__file__).resolve().parent / "include"
PTX = "device.ptx"
"""Name of the PTX file that nvcc writes to the scratch directory."""
_SOURCE, _CUBIN = "device.cu", "device.cubin"
_MOST = 5
_EXTERN = re.compile(r"Unresolved extern function '(\w+)'")
# Rules of CUDA C++ that g++ cannot know; they also hold in host code.
_RULE = re.compile(
    r"__(?:global|device|host)__ function|__(?:shared|constant|device|managed)__ variable"
    r"|\"__(?:shared|constant|device)__\"|kernel launch|must be configured|cannot be configured"
)
_OURS = re.compile(
    r"\b(?:at|c10|torch|caffe2|pybind11|py|kw)::|namespace \"(?:at|c10|torch)\b"
    r"|\bstd::complex\b|\b(?:AT|C10|TORCH|KW)_[A-Z]"
)
# Names that come and go between toolkit releases, so another nvcc may judge them differently.
_LIBRARY = re.compile(
    r"\b(?:cub|thrust|cuda|nv|cooperative_groups|cg)::|namespace \"(?:cub|thrust|cuda|nv)\b"
)
_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined$')
_TENSOR_METHOD = re.compile(r'calling a __host__ function\("at::Tensor')


class Verdict(Record):
    """Result of compiling the device code with nvcc."""

    accepted: bool = False
    """True if the device code compiled."""
    findings: tuple[Finding, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    warnings: tuple[str, ...] = ()
    gap: str | None = None
    """Message of an error that may come from the headers, so that the check is inconclusive, or None."""
    is_ours: bool = False
    """True if the gap may lie in the declared headers, so that the full slim headers may close it."""
    program: str | None = None
    """Identity of the device code (`program.of_device`), or None if no extension was built from it."""


def command(
    nvcc: Nvcc, toolchain: Toolchain, request: BuildRequest, scratch: Path, *, fuller: bool = False
) -> list[str]:
    """Write the device unit to `scratch` and return the command that compiles it to PTX.

    With `fuller`, the unit includes the slim headers for g++, which are slower than the declared headers but
    have fewer gaps.
    """
    (scratch / _SOURCE).write_text(unit.text(request, named=True), encoding="utf-8", errors="surrogatepass")
    declared = [] if fuller else ["-isystem", str(INCLUDE)]
    # These are searched last, so that the emulator's cub and cooperative_groups do not hide NVIDIA's.
    behind = [str(toolchain.headers), str(INCLUDE)]
    return [
        str(nvcc.path), "-ptx", *_options(toolchain, request), *declared,
        *(word for place in behind for word in ("-Xcompiler", f"-idirafter,{place}")), _SOURCE, "-o", PTX,
    ]  # fmt: skip


def assembly(nvcc: Nvcc, toolchain: Toolchain, request: BuildRequest) -> list[str]:
    """Return the command that assembles the PTX with ptxas, which reports each kernel's resources."""
    return [str(nvcc.path), "-cubin", *_options(toolchain, request), "-Xptxas", "-v", PTX, "-o", _CUBIN]


def _options(toolchain: Toolchain, request: BuildRequest) -> list[str]:
    return [
        f"-arch={unit.architecture(request)}", STANDARD, "-lineinfo", "-ccbin", str(toolchain.gxx),
        "-allow-unsupported-compiler", *unit.flags(request),
    ]  # fmt: skip


def read(outcome: Outcome, request: BuildRequest, scratch: Path) -> Verdict:
    """Return nvcc's verdict on the device code from the outcome of its command."""
    if outcome.failure == "timeout":
        return Verdict(gap="it did not end in time")
    said = messages.parse(outcome.messages)
    device = regions.device_lines(request)
    warnings = compile_findings.warnings([m for m in said if m.severity == "warning" and m.line in device])
    if outcome.succeeded:
        return Verdict(accepted=True, kernels=messages.kernels(outcome.messages), warnings=warnings)
    errors = [message for message in said if message.severity == "error"]
    ruled = [message for message in errors if _breaks_a_rule(message)]
    gaps = [message for message in errors if message not in ruled and not _is_device_code(message, device)]
    if gaps and not ruled:
        ours = any(not _LIBRARY.search(message.text) for message in gaps)
        return Verdict(gap=compile_findings.clean(gaps[0].text)[:200], is_ours=ours)
    found = [_of_error(m, request, device) for m in (ruled if gaps else errors)]
    found += [_of_fault(fault, request, scratch) for fault in messages.faults(outcome.messages)]
    if not found:
        return Verdict(gap=_last_words(outcome.messages))
    return Verdict(findings=tuple(_one_a_line(found))[:_MOST], warnings=warnings, is_ours=bool(gaps))


def _one_a_line(found: list[Finding]) -> list[Finding]:
    """Return one finding for each line, with the line's further errors as evidence.

    Several errors in a line often come from one mistake.
    """
    kept: dict[object, Finding] = {}
    for finding in found:
        place = (finding.location.line, finding.kind) if finding.location else finding.message
        first = kept.setdefault(place, finding)
        if first.message != finding.message:
            evidence = f"{first.evidence}\n{finding.evidence}"[:2000]
            kept[place] = first.model_copy(update={"evidence": evidence})
    return list(kept.values())


def _breaks_a_rule(message: Message) -> bool:
    if _is_foreign(message.text) and not _TENSOR_METHOD.search(message.text):
        return False
    return bool(_RULE.search(message.text))


def _is_foreign(text: str) -> bool:
    return bool(_OURS.search(text) or _LIBRARY.search(text))


def _is_device_code(message: Message, device: frozenset[int]) -> bool:
    """Return True if an error is in the candidate's device code and names nothing of torch or a library."""
    if any(_is_foreign(words) for words in (message.text, *(text for _, text in message.notes))):
        return False
    if _device_line(message, device) is None:
        return False
    undefined = _UNDEFINED.search(message.text)
    return undefined is None or not header_gap.in_torch_only(undefined[1])


def _device_line(message: Message, device: frozenset[int]) -> int | None:
    places = [(message.file, message.line), *message.context]
    return next((line for file, line in places if _is_unit(file) and line in device), None)


def _is_unit(file: str) -> bool:
    return file in (CANDIDATE, "cuda_sources")


def _of_error(message: Message, request: BuildRequest, device: frozenset[int]) -> Finding:
    line = _device_line(message, device)
    if line is None and message.file == CANDIDATE:
        line = message.line
    chain = "".join(
        f"\nasked for at line {at}" for file, at in message.context if _is_unit(file) and at != line
    )
    notes = chain + "".join(f"\n{text}" for _, text in message.notes[:4])
    return Finding(
        kind="compile-error",
        message=compile_findings.clean(message.text),
        location=compile_findings.at_line(request, line),
        evidence=compile_findings.clean(f"nvcc: error: {message.text}{notes}")[:2000],
    )


def _of_fault(fault: messages.Fault, request: BuildRequest, scratch: Path) -> Finding:
    evidence = f"ptxas: {fault.text}"
    shared = messages.over_shared_limit(fault.text)
    if shared:
        kernel, message = shared
        return Finding(
            kind=FindingKind.SHARED_MEMORY_LIMIT,
            message=message,
            location=compile_findings.at_line(request, regions.kernel_line(request, kernel)),
            evidence=evidence,
        )
    missing = _EXTERN.search(fault.text)
    if missing:
        name = messages.demangled([missing[1]])[0]
        return Finding(
            kind="compile-error",
            message=f"Device code calls `{name}`, which is declared and not defined in cuda_sources.",
            location=compile_findings.at_line(request, _first_call(request, name)),
            evidence=evidence,
        )
    return Finding(
        kind="compile-error",
        message=f"ptxas: {fault.text}",
        location=compile_findings.at_line(request, _line_of_ptx(fault.line, scratch)),
        evidence=evidence,
    )


def _first_call(request: BuildRequest, name: str) -> int | None:
    base = re.escape(name.split("<")[0].split("::")[-1])
    rows = request.candidate_source.split("\n")
    device = regions.device_lines(request)
    return next((n for n, row in enumerate(rows, 1) if n in device and re.search(rf"\b{base}\b", row)), None)


def _line_of_ptx(number: int | None, scratch: Path) -> int | None:
    """Return the candidate's line for a line of the PTX file, from the last `.loc` before it, or None."""
    ptx = scratch / PTX
    if number is None or not ptx.is_file():
        return None
    rows = ptx.read_text(errors="replace").splitlines()
    files = {
        m[1]
        for m in (re.match(r'\s*\.file\s+(\d+) "(?:.*/)?' + re.escape(CANDIDATE) + '"', r) for r in rows)
        if m
    }
    for row in reversed(rows[:number]):
        place = re.match(r"\s*\.loc\s+(\d+) (\d+)", row)
        if place:
            return int(place[2]) if place[1] in files else None
    return None


def _last_words(log: str) -> str:
    said = [row.strip() for row in log.splitlines() if re.search(r"error|fatal|not found", row)]
    words = (
        re.sub(r"^\S+:\d+:(?:\d+:)? (?:fatal )?error: ", "", said[0]) if said else "it failed without a word"
    )
    return compile_findings.clean(words)[:200]
