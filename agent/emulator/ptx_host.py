"""The host side of an extension whose kernels run from their PTX.

Each kernel keeps its signature and loses its body: what is left hands the addresses of its arguments to
the translated kernel. Host code launches it as before, so that templates, overloads and conversions are
the compiler's business. The two sides meet in a static variable of the stub, whose symbol carries the
kernel's mangled name.
"""

import re

from agent.emulator.cuda_text import (
    RewriteError,
    at_namespace_scope,
    closing,
    code_only,
    directives,
    line_of,
    split_at_commas,
    without_attributes,
)
from agent.emulator.ptx import Untranslated

POINTER = "kw_ptx"
"""The static variable of every stub."""

_KERNEL = re.compile(r"\b__global__\b")
_NAME = re.compile(r"[A-Za-z_]\w*\s*\(")
_PARAMETER = re.compile(r"(?P<pack>\.\.\.\s*)?(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$")
_STATIC = re.compile(
    r"\bstatic\b(?=(?:\s|\b(?:inline|__forceinline__|const|volatile)\b)*\b__(?:global|constant|device)__)"
    r"|(?<=__global__)\s+static\b|(?<=__constant__)\s+static\b|(?<=__device__)\s+static\b"
)
# Not a kernel's: the sanitizer has no business with the pointer's value.
_HEAD = 'inline __attribute__((no_sanitize("thread"))) '


def pointer_symbol(kernel: str) -> str:
    """The symbol of a stub's static variable, from the kernel's mangled name (or C name)."""
    encoding = kernel[2:] if kernel.startswith("_Z") else f"{len(kernel)}{kernel}"
    return f"_ZZ{encoding}E{len(POINTER)}{POINTER}"


def source(text: str) -> str:
    """`text` with every kernel's body replaced, line for line; variables of the device lose `static`,
    which would hide them from the translated unit.

    Raises Untranslated for a kernel that a macro makes, or whose parameters cannot be read.
    """
    code = code_only(text)
    plain = without_attributes(code)
    macros = directives(code)
    edits: list[tuple[int, int, str]] = []
    for match in _KERNEL.finditer(plain):
        if any(start <= match.start() < end for start, end in macros):
            raise Untranslated("a kernel in a macro", line_of(text, match.start()))
        edits += _kernel_edits(plain, match)
    for match in _STATIC.finditer(plain):
        inside = any(start <= match.start() < end for start, end, _ in edits)
        if not inside and at_namespace_scope(code, match.start()):
            edits.append((match.start(), match.end(), ""))
    for start, end, replacement in sorted(edits, reverse=True):
        missing = text.count("\n", start, end) - replacement.count("\n")
        text = text[:start] + replacement + "\n" * missing + text[end:]
    return text


def _kernel_edits(plain: str, match: re.Match[str]) -> list[tuple[int, int, str]]:
    line = line_of(plain, match.start())
    name = _NAME.search(plain, match.end())
    if name is None:
        raise Untranslated("__global__ without a function", line)
    try:
        end = closing(plain, name.end() - 1)
        brace = end + 1 + len(plain[end + 1 :]) - len(plain[end + 1 :].lstrip())
        if plain[brace : brace + 1] != "{":
            return []
        last = closing(plain, brace)
    except RewriteError as error:
        raise Untranslated(str(error), line) from error
    arguments = [
        _argument(plain[name.end() + start : name.end() + stop], line)
        for start, stop in split_at_commas(plain[name.end() : end])
    ]
    pointers = "".join(f"{argument}, " for argument in arguments if argument)
    stub = (
        f"{{ static void (*volatile {POINTER})(void*); void* kw_arguments[] = {{{pointers}nullptr}}; "
        f"{POINTER}(kw_arguments); }}"
    )
    before = re.split(r"[;{}>]", plain[max(0, match.start() - 120) : match.start()])[-1]
    head = "" if re.search(r"\b(?:inline|__forceinline__)\b", before) else _HEAD
    return [(match.start(), match.start(), head), (brace, last + 1, stub)]


def _argument(text: str, line: int) -> str:
    """The address of a parameter, as an element of the array of arguments; "" where there is none."""
    declared = text.split("=")[0].strip()
    if declared in ("", "void"):
        return ""
    match = _PARAMETER.search(declared)
    if match is None or match.start() == 0:
        raise Untranslated(f"parameter `{declared[:60]}`", line)
    return f"(void*)__builtin_addressof({match['name']}){'...' if match['pack'] else ''}"
