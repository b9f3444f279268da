"""Rewriter from CUDA C++ to C++ that g++ compiles against `kw/device.h`; line numbers do not change.

These constructs need rewriting; macros and functions of kw/device.h cover the other CUDA constructs:

    kernel<<<grid, block>>>(a, b)   a call of kw::Launch with the arguments and a lambda that calls the kernel
    cudaLaunchCooperativeKernel(k)  kw::launch_cooperative with the kernel, without its cast to void*
    cudaLaunchKernelEx(&c, k, a)    kw::launch_extended with the kernel's name and the line
    __shared__ T x[N], y;           references to storage of the block
    extern __shared__ T s[];        a pointer to the block's dynamic shared memory

The rewriter does not check types or diagnose kernels. Known limits: a lambda that captures a `__shared__`
array by copy gets a copy, and a braced list cannot be a launch argument.
"""

import re
from dataclasses import dataclass

from agent.build.cuda_text import (
    KernelLaunch,
    RewriteError,
    at_namespace_scope,
    closing,
    code_only,
    directives,
    launches,
    line_of,
    split_at_commas,
    without_attributes,
    without_comments,
)

__all__ = ["RewriteError", "device_source"]

LAUNCH = "kw::Launch(KW_NAME("  # start of a rewritten launch, which device_unit.py searches for
_SHARED = re.compile(r"\b__shared__\b")
_BEFORE_SHARED = re.compile(r"(?:\b(?:extern|static|volatile|const)\b\s*)+$")
_ELEMENT_TYPES = frozenset(
    (
        "float",
        "double",
        "int",
        "unsigned",
        "unsigned int",
        "char",
        "unsigned char",
        "float2",
        "float4",
        "half",
        "__half",
    )
)
_COOPERATIVE = re.compile(r"\bcudaLaunchCooperativeKernel\s*\(")
_EXTENDED = re.compile(r"(?:\bcuda::\s*)?\bcudaLaunchKernelEx\s*\(")
_UNTYPED = re.compile(r"\(\s*(?:const\s+)?void\s*\*\s*\)|\b(?:reinterpret|static)_cast\s*<[^<>]*>\s*(?=\()")
_NAME_AT_END = re.compile(r"([A-Za-z_]\w*)\s*$")


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def device_source(text: str) -> str:
    """Return the text for g++ with unchanged line numbers; text without CUDA syntax stays the same.

    Raise RewriteError, with the line, for code that nvcc would reject (an initialised `__shared__`
    variable) and for a launch or declaration that cannot be parsed.
    """
    code = code_only(text)
    edits = [
        *_launch_edits(text, code),
        *_cooperative_edits(code),
        *_extended_edits(code),
        *_shared_edits(code),
    ]
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        missing = text.count("\n", edit.start, edit.end) - edit.text.count("\n")
        text = text[: edit.start] + edit.text + "\n" * missing + text[edit.end :]
    return text


def _in_directive(spans: list[tuple[int, int]], position: int) -> bool:
    return any(start <= position < end for start, end in spans)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\\\n", " ")).strip()


def _kernel_names(code: str) -> set[str]:
    """Return the names of the `__global__` functions that the code declares."""
    plain = without_attributes(code)
    found = (
        re.search(r"([A-Za-z_]\w*)\s*\(", plain[m.end() : m.end() + 2000])
        for m in re.finditer("__global__", plain)
    )
    return {match[1] for match in found if match}


def _launch_edits(text: str, code: str) -> list[_Edit]:
    found = launches(code)
    if not found:
        return []
    kernels = _kernel_names(code)
    macros = directives(code)
    uncommented = without_comments(text)
    return [
        _launch_edit(uncommented, launch, kernels, _in_directive(macros, launch.start)) for launch in found
    ]


def _launch_edit(text: str, launch: KernelLaunch, kernels: set[str], in_macro: bool) -> _Edit:
    callee = text[slice(*launch.callee)]
    config = text[slice(*launch.config)]
    arguments = re.sub(r"\bNULL\b", "nullptr", text[slice(*launch.arguments)])
    base = re.sub(r"<.*", "", _one_line(callee), flags=re.DOTALL).rsplit("::", 1)[-1].strip()
    by_pointer = "false" if base in kernels else "true"
    # The number is written out, because in a macro's argument g++ takes __LINE__ from the macro's last line.
    line = "__LINE__" if in_macro else str(line_of(text, launch.start))
    breaks = "\n" * text.count("\n", launch.callee[1], launch.config[0])
    call = f"[=](auto&... kw_a) {{ {_one_line(callee)}(kw_a...); }}"
    separator = ", " if arguments.strip() else ""
    return _Edit(
        launch.start,
        launch.end,
        f"{LAUNCH}{callee}), {line}, {by_pointer}, {breaks if not in_macro else ''}"
        f"kw::Config({config}))({call}{separator}{arguments})",
    )


def _cooperative_edits(code: str) -> list[_Edit]:
    edits = []
    for match in _COOPERATIVE.finditer(code):
        given = code[match.end() : closing(code, match.end() - 1)]
        kernel = given[slice(*split_at_commas(given)[0])]
        typed = _one_line(_UNTYPED.sub("", kernel))
        place = f"KW_NAME({typed.lstrip('&')}), {line_of(code, match.start())}"
        call = f"kw::launch_cooperative({place}, {typed}"
        edits.append(_Edit(match.start(), match.end() + len(kernel), call))
    return edits


def _extended_edits(code: str) -> list[_Edit]:
    edits = []
    for match in _EXTENDED.finditer(code):
        given = code[match.end() : closing(code, match.end() - 1)]
        parts = split_at_commas(given)
        if len(parts) < 2:
            raise RewriteError(
                "cudaLaunchKernelEx takes a configuration and a kernel", line_of(code, match.start())
            )
        kernel = _one_line(given[slice(*parts[1])]).lstrip("&")
        call = f"kw::launch_extended(KW_NAME({kernel}), {line_of(code, match.start())}, "
        edits.append(_Edit(match.start(), match.end(), call))
    return edits


def _shared_edits(code: str) -> list[_Edit]:
    macros = directives(code)
    plain = without_attributes(code)
    edits = []
    dynamic_types: dict[str, tuple[str, int]] = {}
    for match in _SHARED.finditer(plain):
        if _in_directive(macros, match.start()):
            continue  # kw/device.h makes __shared__ in a macro local to the block's OS thread
        before = _BEFORE_SHARED.search(plain, max(0, match.start() - 200), match.start())
        start = before.start() if before else match.start()
        end = _declaration_end(plain, match.end())
        declaration = plain[start : match.start()] + plain[match.end() : end]
        line = line_of(code, match.start())
        outside = at_namespace_scope(code, match.start())
        if re.search(r"\bextern\b", declaration):
            edits.append(_Edit(start, end, _dynamic_shared(declaration, line, outside, dynamic_types)))
        elif not outside:
            edits.append(_Edit(start, end, _static_shared(declaration, line)))
    return edits


def _declaration_end(code: str, start: int) -> int:
    position = start
    while position < len(code):
        character = code[position]
        if character == ";":
            return position
        if character in "([{":
            position = closing(code, position)
        elif character in ")]}":
            break
        position += 1
    raise RewriteError("this __shared__ declaration has no end", line_of(code, start))


def _declarator(part: str, line: int) -> tuple[str, str, str]:
    """Return a declarator's text before the name, its name, and its array bounds.

    Raise RewriteError for an initialiser and for a declarator that cannot be parsed.
    """
    bracket = re.search(r"(?<=\w)\s*\[", part)
    head = part[: bracket.start()] if bracket else part
    bounds = part[bracket.start() :].strip() if bracket else ""
    if re.search(r"(?<![=!<>])=(?!=)", part):
        raise RewriteError("an initializer is not allowed for a __shared__ variable", line)
    name = _NAME_AT_END.search(head)
    if name is None or not bounds.endswith(("]", "")):
        raise RewriteError(f"this __shared__ declaration cannot be read: {_one_line(part)}", line)
    return head[: name.start()], name[1], bounds


def _without_storage(declaration: str) -> str:
    return re.sub(r"\b(?:extern|static)\b", "", declaration)


def _static_shared(declaration: str, line: int) -> str:
    declaration = _without_storage(declaration)
    declarators = [_declarator(declaration[a:b], line) for a, b in split_at_commas(declaration)]
    types = ",".join(f"{before}kw_T_{name}{bounds}" for before, name, bounds in declarators)
    references = "; ".join(f"auto& {name} = KW_SHARED(kw_T_{name}, {name})" for _, name, _ in declarators)
    return f"typedef {types}; {references}"


def _dynamic_shared(declaration: str, line: int, outside: bool, seen: dict[str, tuple[str, int]]) -> str:
    before, name, bounds = _declarator(_without_storage(declaration), line)
    first = re.match(r"\[\s*\]", bounds)
    element = _one_line(before)
    if first is None or not element:
        raise RewriteError("dynamic shared memory is declared as extern __shared__ T name[]", line)
    known, known_line = seen.setdefault(name, (element, line))
    if known != element and {known, element} <= _ELEMENT_TYPES:
        raise RewriteError(
            f'declaration is incompatible with "extern __shared__ {known} {name}[]" (declared at line '
            f"{known_line}): one name cannot have two types; use two names, or one type and a cast",
            line,
        )
    macro = "KW_DYNAMIC_SHARED_GLOBAL" if outside else "KW_DYNAMIC_SHARED"
    return f"typedef {before}kw_D_{name}{bounds[first.end() :]}; {macro}(kw_D_{name}, {name})"
