"""Judge what the host code of a candidate uses by the list of what host code may use."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from agent.build.logical_text import Logical, logical
from agent.screen import host_names as names
from agent.screen import host_tree, host_walk
from agent.screen.host_tree import Declared, Path
from agent.screen.host_uses import Sort, Use
from agent.screen.macros import Directive, Expanded, TooLargeError, expand

Permits = Callable[[str], bool]
"""Return True if `--library-ops` allows the torch operator of this name."""

_INSTEAD = {
    "hidden-library-call": "compute in a kernel, which host code launches by name",
    "process-control": "a candidate starts and ends no process or thread",
    "file-access": "the whole candidate is one file, and it opens no other",
    "environment-write": "the environment stays as it is",
    "introspection": "a candidate does not look into the program that runs it; decide by the arguments",
    "patches-module": "torch, Python and C's library stay as they are",
    "dynamic-code": "code made at run time cannot be checked; write it out",
    "global-setting": "settings of torch and of the device stay as the reference finds them",
    "load-time-code": "code of a candidate runs when it is called; do it in a bound function",
}
_KERNEL = "compute it in a kernel"
_UNLISTED = "is not on its list"
_PRAGMAS = re.compile(
    r"\s*(?:unroll|nounroll|once|GCC\s+(?:unroll|diagnostic|ivdep|optimize|system_header|push_options|pop_options)|nv_\w+|clang\s+(?:loop|diagnostic)|diag_\w+|"
    r"omp\s+(?:simd|unroll)|pack|STDC|warning|region|endregion|hd_warning_disable|nv_diag\w*|message)\b.*|\s*",
    re.DOTALL,
)
_SYSTEM_LIBRARIES = re.compile(
    r"aten|prims?|quantized|torch|torchvision|profiler|inductor|_\w*|c10d\w*|mkldnn\w*"
)


_DECORATION = re.compile(
    r"\b(?:__cluster_dims__|__launch_bounds__|__maxnreg__|__block_size__|__align__|C10_LAUNCH_BOUNDS_[12])"
    r"\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)


_GLOBAL = names.LANGUAGE | names.C_LIBRARY | names.CUDA | names.TORCH_MACROS | names.DISPATCHED


class Violation(NamedTuple):
    """A rule that host code breaks, at a line of the text (from 0)."""

    kind: str
    message: str
    row: int


class Unit:
    """One compiled text: the lines that a compiler sees, its trees and the candidate's macros."""

    def __init__(self, text: str, definitions: Sequence[str] = ()) -> None:
        self.before = len(definitions)
        self.read: Logical = logical("\n".join((*definitions, text)))
        self.expanded: Expanded = expand(self.read.uncommented, _is_risky)
        self.roots = [host_tree.parsed(_plain(variant)) for variant in self.expanded.variants]
        self.starts = [0, *(match.end() for match in re.finditer("\n", self.read.code))]

    def line(self, row: int) -> int:
        return max(self.read.line(self.starts[min(row, len(self.starts) - 1)]) - self.before, 0)


class Reading(NamedTuple):
    """Declarations and uses of the texts of one build, with a list of uses for each combination of macros."""

    declared: Declared
    units: tuple[tuple[Unit, tuple[list[Use], ...]], ...]


@lru_cache(maxsize=2)
def _read(texts: tuple[str, ...], definitions: tuple[str, ...]) -> Reading:
    """Parse the texts. The screen and the check before the build ask for the same ones."""
    units = [Unit(text, definitions) for text in texts]
    declared = host_tree.declarations(root for unit in units for root in unit.roots)
    found = ((unit, tuple(host_walk.uses(root, declared) for root in unit.roots)) for unit in units)
    return Reading(declared, tuple(found))


def violations(
    texts: Sequence[str], permits: Permits, definitions: Sequence[str] = ()
) -> list[list[Violation]]:
    """Return the broken rules of each text. The texts of one build may use each other's functions."""
    try:
        declared, units = _read(tuple(texts), tuple(definitions))
    except (TooLargeError, RecursionError):
        words = "Macros or expressions expand to more than can be read; write them out."
        return [[Violation("dynamic-code", words, 0)], *([] for _ in texts[1:])]
    return [_one_a_line(_of_unit(unit, uses, declared, permits)) for unit, uses in units]


def _one_a_line(found: Iterable[Violation]) -> list[Violation]:
    """Return the gravest violation of each line, in the order of the lines."""
    by_row: dict[int, Violation] = {}
    for violation in sorted(found, key=lambda item: (item.row, _UNLISTED in item.message)):
        by_row.setdefault(violation.row, violation)
    return list(by_row.values())


def _of_unit(
    unit: Unit, variants: Iterable[list[Use]], declared: Declared, permits: Permits
) -> Iterator[Violation]:
    yield from _of_directives(unit)
    for found in variants:
        judge = _Judge(declared, permits, _functions_of_driver(found))
        for use in found:
            yield from (Violation(kind, words, unit.line(use.row)) for kind, words in judge.of(use))


def _functions_of_driver(found: Iterable[Use]) -> bool:
    return any(use.path and use.path[-1].startswith("cudaGetDriverEntryPoint") for use in found)


def _of_directives(unit: Unit) -> Iterator[Violation]:
    if not unit.expanded.complete:
        yield Violation(
            "dynamic-code", f"Names are pasted by too many macros: {_INSTEAD['dynamic-code']}.", 0
        )
    for directive in unit.expanded.directives:
        row = max(unit.read.line(directive.position) - unit.before, 0)
        yield from (Violation(kind, message, row) for kind, message in _of_directive(directive))


def _of_directive(directive: Directive) -> Iterator[tuple[str, str]]:
    if directive.name == "pragma" and not _PRAGMAS.fullmatch(directive.rest):
        word = " ".join(directive.rest.split()[:2])
        yield "patches-module", f"`#pragma {word}` is used in C++: {_INSTEAD['patches-module']}."
    elif directive.name == "define":
        name = re.match(r"\s*(\w*)", directive.rest)
        word = name[1] if name else ""
        if word in names.WORDS_OF_THE_LANGUAGE:
            yield (
                "patches-module",
                f"A macro is named `{word}`, a word of the language: give it another name.",
            )


class _Judge:
    def __init__(self, declared: Declared, permits: Permits, has_driver_functions: bool) -> None:
        self.declared = declared
        self.permits = permits
        self.has_driver_functions = has_driver_functions

    def of(self, use: Use) -> Iterator[tuple[str, str]]:
        """Yield the kind and the message of each rule that this use breaks."""
        if use.device:
            yield from self.on_device(use)
        elif use.sort is Sort.NAME:
            yield from self.name(use)
        elif use.sort is Sort.MEMBER:
            yield from self.member(use.path[-1], use)
        elif use.sort is Sort.OWN_CALL:
            yield from self.own_call(use)
        elif use.sort is Sort.OPERATOR and not self.permits("add"):
            what = f"`{use.detail}`" if use.detail else "A function for values of any type"
            words = f"{what} computes with tensors in C++, as torch's operators do: {_KERNEL}."
            yield "hidden-library-call", words
        elif use.sort is Sort.ASSEMBLY:
            yield _said("patches-module", "`asm`", "host code is C++; assembly belongs into kernels")
        elif use.sort is Sort.ATTRIBUTE:
            yield from _attribute(use.detail)
        elif use.sort is Sort.FUNCTION_CAST and not self.has_driver_functions:
            yield _said(
                "hidden-library-call",
                "A value turned into a function",
                "call functions by name",
            )
        elif use.sort is Sort.LOADING:
            yield _said("load-time-code", f"`{'::'.join(use.path)}`, while the library is loaded,")
        elif use.sort is Sort.DEFINITION:
            yield from self.definition(use)
        elif use.sort is Sort.MODULE:
            yield from self.module(use)

    def on_device(self, use: Use) -> Iterator[tuple[str, str]]:
        """Refuse what no device function can call: a compiler for C++ alone takes it for a host function."""
        path = tuple(part for part in self.declared.resolved(use.path) if part)
        if use.sort is not Sort.NAME or not path or not use.called:
            return
        name, root = path[-1], path[0]
        if len(path) == 1 and (
            name in names.LIBC - {"clock", "time", "barrier"} or names.PYTHON.fullmatch(name)
        ):
            yield _said(names.REFUSED.get(name, "introspection"), f"`{name}`")
        elif (
            root in ("at", "torch", "py", "pybind11")
            and len(path) > 1
            and name in names.OPERATORS | names.REFUSED.keys()
        ):
            yield _said(names.REFUSED.get(name, "hidden-library-call"), f"`{'::'.join(path)}`")

    def name(self, use: Use) -> Iterator[tuple[str, str]]:
        path = tuple(part for part in self.declared.resolved(use.path) if part)
        if not path or path[-1] in ("operator", "template"):
            return
        if (
            path[-1].startswith("cudaGetDriverEntryPoint")
            and use.called
            and not names.DRIVER_ENTRIES.match(use.detail)
        ):
            words = "only functions that encode tensor maps are looked up in the driver"
            yield _said("hidden-library-call", f"`{path[-1]}({use.detail[:40]})`", words)
        elif len(path) == 1:
            yield from self.simple(path[0], use)
        else:
            yield from self.qualified(path, use)

    def simple(self, name: str, use: Use) -> Iterator[tuple[str, str]]:
        if use.path[0] == "" and self.declared.has(use.path):
            return
        if use.called and use.detail == "Tensor" and name in names.OPERATORS:
            yield from self.operator(name, name)
            return
        if self.is_global(name) or name in names.OUTSIDE or name in self.declared.aliases:
            return
        if name in names.REFUSED or names.PYTHON.fullmatch(name) or names.LIBRARIES.fullmatch(name):
            yield from self.refused(name, name)
            return
        opened = [self.declared.resolved(path) for path in self.declared.opened]
        if any(
            not list(self.qualified((*path, name), use))
            for path in opened
            if path and path[0] in names.OUTSIDE
        ):
            return
        if use.called and name in names.FACTORIES | names.TORCH:
            return
        if name in self.declared.functions or any(name in found for found in self.declared.names.values()):
            yield _said(
                "hidden-library-call", f"`{name}`, which is not declared where it is used,", "qualify it"
            )
        elif name in names.OPERATORS or name.removesuffix("_out") in names.OPERATORS:
            yield from self.operator(name, name)
        else:
            yield _outside(name, use)

    def is_global(self, name: str) -> bool:
        patterns = (names.CUDA_WORDS, names.DISPATCHES, names.RUNTIME)
        return name in _GLOBAL or (name not in names.REFUSED and any(p.fullmatch(name) for p in patterns))

    def refused(self, name: str, shown: str) -> Iterator[tuple[str, str]]:
        if name in names.REFUSED:
            yield _said(names.REFUSED[name], f"`{shown}`")
        elif names.LIBRARIES.fullmatch(name):
            product = names.PRODUCT_LIBRARIES.fullmatch(name)
            if not self.permits("mm" if product else "sum"):
                yield _said(
                    "hidden-library-call",
                    f"`{shown}`",
                    "--library-ops does not allow it; compute in a kernel",
                )
        else:
            yield _said(
                "introspection", f"`{shown}` of Python's C interface", "take what you need as an argument"
            )

    def qualified(self, path: Path, use: Use) -> Iterator[tuple[str, str]]:
        root, shown = path[0], "::".join(path)
        if root not in names.OUTSIDE and self.declared.has(path):
            return
        if root == "std":
            bad = next((part for part in path[1:2] if not _is_std(part)), None)
            if bad is not None:
                kind = names.REFUSED.get(bad)
                yield _said(kind, f"`{shown}`") if kind else _outside(shown, use)
        elif root in names.HEADER_LIBRARIES:
            return
        elif root in ("py", "pybind11"):
            bad = next(
                (part for part in path[1:] if part not in names.PYBIND | {"literals", "detail", "ssize_t"}),
                None,
            )
            if bad is not None:
                yield _said(names.REFUSED.get(bad, "introspection"), f"`{shown}`")
        elif root in ("torch", "at", "c10"):
            yield from self.torch(path, use)
        elif root in names.OUTSIDE:
            yield _outside(shown, use)
        elif root in self.declared.classes or path[-1] in self.declared.members:
            yield from self.member(path[-1], use._replace(called=False))
        else:
            yield from self.simple(path[-1], use._replace(path=path))

    def torch(self, path: Path, use: Use) -> Iterator[tuple[str, str]]:
        shown = "::".join(path)
        bad = next((part for part in path[1:] if part in names.REFUSED and part not in names.FACTORIES), None)
        if bad is not None:
            yield _said(names.REFUSED[bad], f"`{shown}`")
            return
        for length in range(len(path) - 1, 0, -1):
            scope, name = "::".join(path[:length]), path[length]
            if scope in names.TORCH_SCOPES and (name in names.TORCH or name in names.FACTORIES):
                for part in path[length + 1 :]:
                    if not part[:1].isupper():
                        yield from self.member(part, use)
                return
            if names.LIBRARIES.fullmatch(name):
                yield from self.refused(name, shown)
                return
            if scope in names.OPERATOR_SCOPES and name[:1].islower() | name.startswith("_"):
                if (
                    name in names.TORCH_SCOPES
                    or f"{scope}::{name}" in names.TORCH_SCOPES | names.OPERATOR_SCOPES
                ):
                    if length == len(path) - 1:
                        return
                    break
                yield from self.operator(name, shown)
                return
        else:
            yield _outside(shown, use)
            return
        yield _outside(shown, use)

    def operator(self, name: str, shown: str) -> Iterator[tuple[str, str]]:
        plain = re.sub(r"_(?:out|outf|symint)$", "", name)
        if plain in names.FACTORIES or self.permits(plain) or self.permits(name):
            return
        yield (
            "hidden-library-call",
            f"`{shown}` computes by torch in C++, which --library-ops forbids: {_KERNEL}.",
        )

    def member(self, name: str, use: Use) -> Iterator[tuple[str, str]]:
        own = name in self.declared.members
        # A method named as an operator of torch is the candidate's own only for a receiver of a known class.
        is_surely_own = not use.called or name not in names.OPERATORS or bool(use.detail)
        if own and is_surely_own and not (use.called and use.detail == "Tensor"):
            return
        if name in names.REFUSED_METHODS and not own:
            yield _said(names.REFUSED_METHODS[name], f"`.{name}`")
        elif name in names.METHODS or name.startswith("operator"):
            return
        elif name.strip("_") in names.OPERATORS or self.permits(name):
            yield from self.operator(name, f".{name}()")
        elif not own:
            yield _outside(f".{name}", use)

    def own_call(self, use: Use) -> Iterator[tuple[str, str]]:
        name = use.path[-1]
        made = self.declared.functions[name]
        fits = [f for f in made if not use.called or f.least <= use.arguments <= f.most]
        if use.called and use.detail not in ("launch", "both sides") and all(f.is_device for f in made):
            yield (
                "hidden-library-call",
                f"`{name}` runs on the GPU alone, and host code calls it: launch a kernel.",
            )
        elif name in names.LIBC and not any(f.takes_tensor for f in fits):
            yield _said(
                names.REFUSED[name], f"`{name}`, a function of C's library,", "rename your own function"
            )
        elif (
            name in names.OPERATORS
            and use.called
            and use.detail == "Tensor"
            and not any(f.takes_tensor or f.is_template for f in fits)
        ):
            yield from self.operator(name, name)

    def definition(self, use: Use) -> Iterator[tuple[str, str]]:
        name, at_top = use.path[-1], len(use.path) == 1
        taken = name in names.LIBC or name in names.C_LIBRARY or names.PYTHON.fullmatch(name) is not None
        taken |= re.match(r"__cuda|cuda[A-Z]|_Z|__cxa", name) is not None
        if use.detail == "C" and taken:
            yield _said("patches-module", f"`{name}`, defined by the candidate,", "give it another name")
        elif at_top and re.match(r"operator\s*(new|delete)", name):
            yield _said("patches-module", f"`{name}`, defined by the candidate,")

    def module(self, use: Use) -> Iterator[tuple[str, str]]:
        name = use.path[0]
        if name not in host_tree.MODULE_MACROS and not names.DISPATCHES.fullmatch(name):
            yield _outside(name, use)
        elif name != "PYBIND11_MODULE" and _SYSTEM_LIBRARIES.fullmatch(use.detail.strip()):
            yield _said(
                "patches-module",
                f"`{name}({use.detail.strip()})`",
                "register operators under a name of your own",
            )


def _plain(text: str) -> str:
    """Blank what the grammar takes for calls: CUDA's attributes of a function, and casts to `unsigned`."""
    text = re.sub(r"\bunsigned(?=\s*\()", "uint32_t", text)
    for digraph, sign in (("<%", "{ "), ("%>", "} "), ("<:", "[ "), (":>", "] ")):
        # `<::` is `<` and `::` in C++.
        text = re.sub(rf"{digraph}(?!:)" if digraph == "<:" else digraph, sign, text)
    return _DECORATION.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _is_risky(name: str) -> bool:
    found = name in names.REFUSED or name in names.OPERATORS or names.PYTHON.fullmatch(name)
    return bool(found or names.LIBRARIES.fullmatch(name) or name.removesuffix("_out") in names.OPERATORS)


def _is_std(name: str) -> bool:
    return name in names.STD or bool(names.STD_TRAITS.fullmatch(name))


def _said(kind: str, what: str, instead: str = "") -> tuple[str, str]:
    return kind, f"{what} is used in C++: {instead or _INSTEAD[kind]}."


def _outside(name: str, use: Use) -> tuple[str, str]:
    called = "called" if use.called else "used"
    words = "launch kernels, allocate by torch::empty and the like, use std:: and CUDA's runtime"
    return "hidden-library-call", f"`{name}` is {called} in host code and {_UNLISTED}: {words}."


def _attribute(words: str) -> Iterator[tuple[str, str]]:
    named = {word.strip("_") for word in re.findall(r"[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", words))}
    if named & names.LOADING_ATTRIBUTES:
        yield _said("load-time-code", f"`{min(named & names.LOADING_ATTRIBUTES)}`, an attribute,")
    elif strange := named - {word.strip("_") for word in names.ATTRIBUTES}:
        yield _said("patches-module", f"`{min(strange)}`, an attribute,")
