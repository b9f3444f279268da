"""Mends within a source: linkage, shared memory, `data_ptr`, calls that torch removed, includes."""

import re

from agent.diagnosis import source_lines
from agent.diagnosis.build import headers
from agent.mend.extension import Extension, closing_brace
from agent.records import Finding

_SOURCES = ("cpp_sources", "cuda_sources")
_EXTERN_C = re.compile(r'extern\s*\\?"C\\?"[ \t]*(?P<brace>\{)?')
_SHARED = re.compile(
    r"extern\s+__shared__\s+(?P<align>__align__\(\d+\)\s*)?(?P<type>[\w:]+(?:\s*<[\w:, "
    r"]+>)?(?:\s+[\w:]+)*)\s+"
    r"(?P<name>\w+)\s*\[\s*\]\s*;"
)
_RECEIVER = r"(?P<receiver>\b\w+(?:\(\)|\[\w+\])?(?:(?:\.|->)\w+(?:\(\)|\[\w+\])?)*?)(?P<access>\.|->)"
_POINTER = re.compile(
    _RECEIVER + r"(?P<call>(?:mutable_|const_)?data_ptr)<\s*(?P<const>const\s+)?(?P<type>\w+)\s*>\s*\(\)"
)
_WANTED = re.compile(
    r"^`data_ptr<(?P<given>\w+)>\(\)` gives a `(?P=given) ?\*`, and "
    r"`(?:const )?(?P<wanted>\w+) ?\*` is wanted"
)
_STORED_AS = {
    "__half": "at::Half", "half": "at::Half", "__nv_bfloat16": "at::BFloat16", "nv_bfloat16": "at::BFloat16",
    "float2": "float", "float4": "float", "double2": "double",
}  # fmt: skip
"""CUDA types, each with the torch type that is stored in memory under it."""
_DISPATCHED = re.compile(rf"(?P<macro>AT_DISPATCH_\w+\([^;{{]*?){_RECEIVER}type\(\)")
_DATA = re.compile(_RECEIVER + r"data<\s*(?P<type>[\w:]+)\s*>\s*\(\)")


def without_extern_c(extension: Extension, finding: Finding) -> Extension | None:
    """Remove `extern "C"` everywhere, including the braces of a block."""
    made: Extension | None = None
    for name in _SOURCES:
        for number in range(len(extension.texts(name) or ())):
            current = made or extension
            text = (current.texts(name) or ())[number]
            body = _without_linkage(text.body)
            if body is not None and body != text.body:
                made = current.with_body(text, body, 'removed extern "C"') or made
    return made


def _without_linkage(body: str) -> str | None:
    while found := _EXTERN_C.search(body):
        end = found.end()
        if found["brace"]:
            close = closing_brace(body, end)
            if close is None:
                return None
            body = body[:close] + body[close + 1 :]
        # The blanks before it stay, so that the words around `extern "C"` stay apart.
        body = body[: found.start()] + body[end:].lstrip(" \t")
    return body


def shared_as_bytes(extension: Extension, finding: Finding) -> Extension | None:
    """Declare every `extern __shared__ T name[]` as bytes, with a pointer to T under the old name."""
    made: Extension | None = None
    for number in range(len(extension.texts("cuda_sources") or ())):
        current = made or extension
        text = (current.texts("cuda_sources") or ())[number]
        body = _SHARED.sub(_as_bytes, text.body)
        if body != text.body:
            did = "declared extern shared memory as bytes, with a pointer of each kernel's own type"
            made = current.with_body(text, body, did) or made
    return made


def _as_bytes(found: re.Match[str]) -> str:
    name, kind = found["name"], " ".join(found["type"].split())
    return (
        f"extern __shared__ __align__(16) unsigned char {name}_bytes[]; "
        f"{kind}* {name} = reinterpret_cast<{kind}*>({name}_bytes);"
    )


def data_ptr(extension: Extension, finding: Finding) -> Extension | None:
    """Cast `x.data_ptr<__half>()` from the type that torch stores, and replace a wrong type by the kernel's.

    The kernel keeps its types. Torch checks what a tensor holds: if the kernel is the wrong one, the call
    raises instead of computing a wrong result.
    """
    made = _as_wanted(extension, finding)
    for name in _SOURCES:
        for number in range(len(extension.texts(name) or ())):
            current = made or extension
            text = (current.texts(name) or ())[number]
            body = _POINTER.sub(_cast, text.body)
            if body != text.body:
                made = current.with_body(text, body, "cast data_ptr from the type that torch stores") or made
    return made


def _as_wanted(extension: Extension, finding: Finding) -> Extension | None:
    """Replace the type in the statement that the compiler names, or return None if that is ambiguous."""
    said = _WANTED.search(finding.message)
    place = finding.location.line if finding.location else None
    if said is None or place is None or said["given"] in _STORED_AS or said["wanted"] in _STORED_AS:
        return None
    old, new = (f"data_ptr<{said[side]}>" for side in ("given", "wanted"))
    before = "\n".join(source_lines.statement(extension.source, place))
    if not 1 <= before.count(old) <= finding.count:
        return None
    did = f"wrote {new} for {old}, as the kernel has it"
    for name in _SOURCES:
        for text in extension.texts(name) or ():
            if text.body.count(before) == 1:
                body = text.body.replace(before, before.replace(old, new))
                return extension.with_body(text, body, did)
    return None


def _cast(found: re.Match[str]) -> str:
    stored = _STORED_AS.get(found["type"])
    if stored is None:
        return found[0]
    const = "const " if found["const"] or found["call"].startswith("const_") else ""
    inner = f"{found['receiver']}{found['access']}{found['call']}<{stored}>()"
    return f"reinterpret_cast<{const}{found['type']}*>({inner})"


def current_calls(extension: Extension, finding: Finding) -> Extension | None:
    """Replace `x.type()` in a dispatch by `x.scalar_type()`, and `x.data<T>()` by `x.data_ptr<T>()`."""
    made: Extension | None = None
    for name in _SOURCES:
        for pattern, new, did in (
            (_DISPATCHED, r"\g<macro>\g<receiver>\g<access>scalar_type()", "wrote scalar_type() for type()"),
            (_DATA, r"\g<receiver>\g<access>data_ptr<\g<type>>()", "wrote data_ptr<T>() for data<T>()"),
        ):
            made = (made or extension).with_bodies(name, pattern, new, did) or made
    return made


def include(extension: Extension, finding: Finding) -> Extension | None:
    """Add the header from the finding at the start of the source that lacks it."""
    header = headers.asked(finding.message)
    place = finding.location.line if finding.location else None
    if header is None:
        return None
    for name in ("cuda_sources", "cpp_sources"):
        for text in extension.texts(name) or ():
            first = extension.source.count("\n", 0, text.start) + 1
            if place is None or first <= place <= first + text.body.count("\n"):
                line = f"#include <{header}>\n"
                body = text.body.removeprefix("\n")
                begin = "\n" if text.body.startswith("\n") else ""
                if line in text.body:
                    return None
                return extension.with_body(text, begin + line + body, f"included <{header}>")
    return None
