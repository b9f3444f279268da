"""Functions that C++ and CUDA text declares and defines, read without a compiler.

Only namespace scope is read: names, parameters, linkage and the namespace. The parser knows neither types nor
macros and omits what it cannot read. Only a compiler can confirm what is read here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from agent.build.cuda_text import RewriteError, closing, code_only, directives, without_attributes

_NAMESPACE = re.compile(r"(?:inline\s+)?namespace(?:\s+([\w:]+))?\s*\Z")
_LINKAGE = re.compile(r'extern\s*"[^"]*"\s*\Z')
_TEMPLATE = re.compile(r"\s*template\s*<")
_NAME = re.compile(r"(?:(?P<scope>(?:\w+::)+))?(?P<name>~?\w+)\s*\(")
_KEYWORDS = frozenset({"if", "for", "while", "switch", "return", "sizeof", "decltype", "defined", "catch"})
_SPECIFIERS = re.compile(
    r'\b(?:static|inline|extern|constexpr|__host__|__device__|__global__|__forceinline__|__noinline__)\b|"[^"]*"'
)


class Function(NamedTuple):
    """One declaration or definition, with offsets into the text."""

    name: str
    returns: str
    parameters: tuple[str, ...]
    """Parameters as written, without default values."""
    specifiers: frozenset[str]
    """Subset of `static`, `inline`, `extern "C"`, `template`, `__global__`, `__device__`, `__host__`."""
    namespace: str
    """Namespace such as `a::b`; empty at global scope."""
    start: int
    end: int
    """Offset just after the parameters."""
    body: tuple[int, int] | None
    """Offsets from `{` to just after `}`; None for a declaration."""

    @property
    def declaration(self) -> str:
        """Return the declaration without specifiers, such as `torch::Tensor f(torch::Tensor x);`."""
        return f"{self.returns} {self.name}({', '.join(self.parameters)});"

    @property
    def on_host(self) -> bool:
        """Return True for a plain host function, which `functions` can bind."""
        device = "__device__" in self.specifiers and "__host__" not in self.specifiers
        return not device and not self.specifiers & {"__global__", "template"}


def functions(text: str) -> tuple[Function, ...]:
    """Return all functions at namespace scope, in order; empty if the text does not read as C++."""
    code = without_attributes(_without_directives(code_only(text)))
    try:
        return tuple(_functions(text, code, 0, len(code), ""))
    except (RewriteError, IndexError):
        return ()


def host_definitions(text: str) -> dict[str, Function]:
    """Return the host functions with a body, by name; overloaded names are ambiguous and left out."""
    found: dict[str, list[Function]] = {}
    for function in functions(text):
        if function.body is not None and function.on_host:
            found.setdefault(function.name, []).append(function)
    return {name: made[0] for name, made in found.items() if len(made) == 1}


def kernels(text: str) -> dict[str, Function]:
    """Return the `__global__` functions, by name."""
    return {f.name: f for f in functions(text) if "__global__" in f.specifiers}


def has_device_code(text: str) -> bool:
    """Return True if only nvcc can compile the text."""
    return re.search(r"\b__(?:global|device|shared)__\b|<<<", code_only(text)) is not None


def _without_directives(code: str) -> str:
    for start, end in directives(code):
        code = code[:start] + " " * (end - start) + code[end:]
    return code


def _functions(text: str, code: str, start: int, stop: int, namespace: str) -> Iterator[Function]:
    begun = position = start
    while position < stop:
        character = code[position]
        if character == "(":
            position = closing(code, position)
        elif character == ";":
            yield from _read(text, code, begun, position, namespace, None)
            begun = position + 1
        elif character == "{":
            end = closing(code, position)
            head = code[begun:position]
            inner = _NAMESPACE.search(head)
            if inner:
                within = "::".join(part for part in (namespace, inner[1] or "") if part)
                yield from _functions(text, code, position + 1, end, within)
            elif _LINKAGE.search(head):
                for function in _functions(text, code, position + 1, end, namespace):
                    yield function._replace(specifiers=function.specifiers | {'extern "C"'})
            else:
                yield from _read(text, code, begun, position, namespace, (position, end + 1))
            begun, position = end + 1, end
        position += 1


def _read(
    text: str, code: str, start: int, stop: int, namespace: str, body: tuple[int, int] | None
) -> Iterator[Function]:
    """Yield the function whose head lies between `start` and `stop`, if there is one."""
    template = _TEMPLATE.match(code, start, stop)
    begin = _after_template(code, template.end() - 1) if template else start
    named = _NAME.search(code, begin, stop)
    if named is None or named["name"] in _KEYWORDS or named["scope"] or "=" in code[begin : named.start()]:
        return
    before = code[begin : named.start()]
    returns = " ".join(_SPECIFIERS.sub(" ", before).split())
    if not returns or re.search(r"\b(?:class|struct|enum|using|typedef|return|new|else)\b", returns):
        return
    end = closing(code, named.end() - 1)
    words = set(re.findall(r"\b(?:static|inline|__global__|__device__|__host__)\b", before))
    words |= {"template"} if template else set()
    words |= {'extern "C"'} if re.search(r'extern\s*"', before) else set()
    first = start + len(code[start:stop]) - len(code[start:stop].lstrip())
    yield Function(
        named["name"], returns, tuple(_parameters(text, code, named.end(), end)), frozenset(words),
        namespace, first, end + 1, body,
    )  # fmt: skip


def _after_template(code: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(code)):
        depth += {"<": 1, ">": -1}.get(code[position], 0)
        if depth == 0:
            return position + 1
    return len(code)


def _parameters(text: str, code: str, start: int, end: int) -> Iterator[str]:
    depth, begun = 0, start
    for position in range(start, end + 1):
        character = code[position]
        if position == end or (character == "," and depth == 0):
            shown = text[begun:position].split("=")[0]
            if shown.strip() not in ("", "void"):
                yield " ".join(shown.split())
            begun = position + 1
        depth += 1 if character in "<([{" else -1 if character in ">)]}" else 0
