"""Host side of an extension whose kernels run from their PTX.

A kernel keeps its signature, and host code launches it as before. The compiler therefore still resolves
templates, overloads and conversions. `stubbed` replaces the body by a call that passes the addresses of the
arguments to the translated kernel. `switched` puts such a call before the body, for unchecked launches.
The stub and the translated kernel are linked by a static variable of the kernel, whose symbol contains the
kernel's mangled name. If nothing is linked to that variable, a switched kernel runs its own body.
"""

import re
from dataclasses import dataclass

from agent.build.cuda_text import (
    RewriteError,
    at_namespace_scope,
    closing,
    code_only,
    directives,
    line_of,
    split_at_commas,
    without_attributes,
)
from agent.build.toolchain import CPP
from agent.emulator.ptx import Untranslated

POINTER = "kw_ptx"
"""Name of the static variable in every stub."""

_KERNEL = re.compile(r"\b__global__\b")
_SHARED = re.compile(r"\b__shared__\b([^;{}()=]*);")
_DEVICE = re.compile(r"\b__device__\b")
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b")
_NAME = re.compile(r"[A-Za-z_]\w*\s*\(")
_PARAMETER = re.compile(r"(?P<pack>\.\.\.\s*)?(?P<name>[A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$")
_STATIC = re.compile(
    r"\bstatic\b(?=(?:\s|\b(?:inline|__forceinline__|const|volatile)\b)*\b__(?:global|constant|device)__)"
    r"|(?<=__global__)\s+static\b|(?<=__constant__)\s+static\b|(?<=__device__)\s+static\b"
)
# Stubs only pass addresses on, so the thread sanitizer need not check their accesses.
_UNCHECKED = 'inline __attribute__((no_sanitize("thread"))) '

_INCLUDE = re.compile(r"\s*#\s*include\s*[<\"]([\w./+-]+)[>\"]")
_OF_TOOLKIT = re.compile(r"mma\.h|(?:cuda|cub|thrust|nv)/.+")
_NAMES = '#include "kw/toolkit_names.h"'

_Edit = tuple[int, int, str]


def pointer_symbol(kernel: str) -> str:
    """Return the symbol of a stub's static variable, from the kernel's mangled name (or C name)."""
    encoding = kernel[2:] if kernel.startswith("_Z") else f"{len(kernel)}{kernel}"
    return f"_ZZ{encoding}E{len(POINTER)}{POINTER}"


def stubbed(text: str) -> str:
    """Return `text` with every kernel's body replaced by a stub; line numbers do not change.

    Device variables lose `static`, which would hide them from the translated unit. Raise Untranslated for a
    kernel that a macro defines, or whose parameters cannot be parsed.
    """
    code = code_only(text)
    plain = without_attributes(code)
    macros = directives(code)
    edits: list[_Edit] = []
    for match in _KERNEL.finditer(plain):
        if _within(macros, match.start()):
            raise Untranslated("a kernel in a macro", line_of(text, match.start()))
        kernel = _kernel(plain, match)
        if kernel is not None:
            edits += [_head(plain, match, _UNCHECKED), (*kernel.body, _stub(kernel))]
    edits += _assembly(plain, macros, edits)
    edits += [(start, end, _NAMES) for start, end in _toolkit_includes(text, macros)]
    return _edited(text, [*edits, *_statics(code, plain, edits)])


def _toolkit_includes(text: str, macros: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans of `#include` directives of headers that only nvcc can compile."""
    found = ((start, end, _INCLUDE.match(text, start, end)) for start, end in macros)
    return [
        (start, match.end())
        for start, _, match in found
        if match and _OF_TOOLKIT.fullmatch(match[1]) and not (CPP / "include" / match[1]).is_file()
    ]


def switched(text: str) -> str:
    """Return `text` with a call of the translated kernel at the start of every kernel that can be parsed.

    Device variables lose `static`, as in `stubbed`. Line numbers do not change.
    """
    code = code_only(text)
    plain = without_attributes(code)
    macros = directives(code)
    edits: list[_Edit] = []
    for match in _KERNEL.finditer(plain):
        try:
            kernel = None if _within(macros, match.start()) else _kernel(plain, match)
        except Untranslated:
            continue
        if kernel is not None:
            start = kernel.body[0] + 1
            edits += [_head(plain, match, "inline "), (start, start, _switch(kernel))]
    return _edited(text, [*edits, *_statics(code, plain, edits)])


def shared_lines(text: str) -> dict[str, int]:
    """Return the declaration's line for each `__shared__` variable whose name is declared only once."""
    plain = without_attributes(code_only(text))
    found: dict[str, list[int]] = {}
    for match in _SHARED.finditer(plain):
        for start, end in split_at_commas(match[1]):
            name = re.search(r"[A-Za-z_]\w*(?=\s*(?:\[|$))", match[1][start:end])
            if name:
                found.setdefault(name[0], []).append(line_of(plain, match.start()))
    return {name: lines[0] for name, lines in found.items() if len(lines) == 1}


@dataclass(frozen=True)
class _Kernel:
    """Span of a kernel definition's body, braces included, and the names of its parameters."""

    body: tuple[int, int]
    parameters: tuple[str, ...]
    """Parameter names; the name of a pack ends in `...`."""


def _within(spans: list[tuple[int, int]], position: int) -> bool:
    return any(start <= position < end for start, end in spans)


def _edited(text: str, edits: list[_Edit]) -> str:
    for start, end, replacement in sorted(edits, reverse=True):
        missing = text.count("\n", start, end) - replacement.count("\n")
        text = text[:start] + replacement + "\n" * missing + text[end:]
    return text


def _statics(code: str, plain: str, edits: list[_Edit]) -> list[_Edit]:
    return [
        (match.start(), match.end(), "")
        for match in _STATIC.finditer(plain)
        if not any(start <= match.start() < end for start, end, _ in edits)
        and at_namespace_scope(code, match.start())
    ]


def _assembly(plain: str, macros: list[tuple[int, int]], edits: list[_Edit]) -> list[_Edit]:
    """Return edits that replace the bodies of device functions with inline PTX, which g++ cannot compile.

    This includes functions whose PTX comes from a macro.
    """
    defined = (re.match(r"#\s*define\s+(\w+)", plain[start:end].lstrip()) for start, end in macros)
    names = [
        m[1] for m, (start, end) in zip(defined, macros, strict=True) if m and _ASM.search(plain[start:end])
    ]
    words = re.compile("|".join((_ASM.pattern, *(rf"\b{name}\b" for name in names))))
    found: list[_Edit] = []
    for match in _DEVICE.finditer(plain):
        stop = re.compile(r"[;{]").search(plain, match.end())
        if stop is None or stop[0] == ";" or ")" not in plain[match.end() : stop.start()]:
            continue
        try:
            end = closing(plain, stop.start()) + 1
        except RewriteError:
            continue
        taken = any(start <= match.start() < last for start, last, _ in (*edits, *found))
        if not taken and not _within(macros, match.start()) and words.search(plain, stop.start(), end):
            found.append((stop.start(), end, "{ __builtin_trap(); }"))
    return found


def _kernel(plain: str, match: re.Match[str]) -> _Kernel | None:
    """Return the kernel that starts at `__global__`, or None for a mere declaration.

    Raise Untranslated if the text cannot be parsed.
    """
    line = line_of(plain, match.start())
    name = _NAME.search(plain, match.end())
    if name is None:
        raise Untranslated("__global__ without a function", line)
    try:
        end = closing(plain, name.end() - 1)
        brace = end + 1 + len(plain[end + 1 :]) - len(plain[end + 1 :].lstrip())
        if plain[brace : brace + 1] != "{":
            return None
        last = closing(plain, brace)
    except RewriteError as error:
        raise Untranslated(str(error), line) from error
    parameters = [
        _parameter(plain[name.end() + start : name.end() + stop], line)
        for start, stop in split_at_commas(plain[name.end() : end])
    ]
    return _Kernel((brace, last + 1), tuple(filter(None, parameters)))


def _head(plain: str, match: re.Match[str], words: str) -> _Edit:
    """Return the edit that inserts `words` before a kernel, or an empty edit if it is already inline.

    Static variables of a function that is not inline have local symbols.
    """
    before = re.split(r"[;{}>]", plain[max(0, match.start() - 120) : match.start()])[-1]
    is_inline = re.search(r"\b(?:inline|__forceinline__)\b", before)
    return match.start(), match.start(), "" if is_inline else words


def _stub(kernel: _Kernel) -> str:
    pointers = "".join(_address(name) for name in kernel.parameters)
    return (
        f"{{ static void (*volatile {POINTER})(void*); void* kw_arguments[] = {{{pointers}nullptr}}; "
        f"{POINTER}(kw_arguments); }}"
    )


def _switch(kernel: _Kernel) -> str:
    """Return code that calls the translated kernel, if one is linked, with copies of the parameters.

    Taking the address of a parameter itself would force it into memory in the kernel's body too.
    """
    copies, names = [], []
    for number, parameter in enumerate(kernel.parameters):
        if parameter.endswith("..."):
            names.append(parameter)
        else:
            copies.append(f"auto kw_{number} = {parameter}; ")
            names.append(f"kw_{number}")
    pointers = "".join(_address(name) for name in names)
    return (
        f" static void (*{POINTER})(void*); if (KW_UNCHECKED({POINTER})) {{ {''.join(copies)}"
        f"void* kw_arguments[] = {{{pointers}nullptr}}; {POINTER}(kw_arguments); return; }}"
    )


def _address(parameter: str) -> str:
    pack = "..." if parameter.endswith("...") else ""
    return f"(void*)__builtin_addressof({parameter.removesuffix('...')}){pack}, "


def _parameter(text: str, line: int) -> str:
    """Return a parameter's name, or "" for an empty list. Raise Untranslated for an unnamed parameter."""
    declared = text.split("=")[0].strip()
    if declared in ("", "void"):
        return ""
    match = _PARAMETER.search(declared)
    if match is None or match.start() == 0:
        raise Untranslated(f"parameter `{declared[:60]}`", line)
    return f"{match['name']}{'...' if match['pack'] else ''}"
