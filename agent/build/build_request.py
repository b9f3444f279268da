"""Request of one `load_inline` call: its arguments, and the text of its host unit, main.cpp.

`main.cpp` consists of cpp_sources and the bindings of `functions`, assembled as torch does and compiled as
plain C++. Line numbers are the candidate's own throughout.
"""

import ast
import json
import re

from pydantic import field_validator

from agent.build.source_map import locate, with_directives
from agent.python_source import syntax_tree
from agent.records import Record

BINDINGS = "bindings"
"""File name of the generated PYBIND11_MODULE in compiler messages; line n binds function n."""


class BuildRequest(Record):
    """Arguments of one load_inline call, and the candidate's file that makes the call."""

    name: str
    cpp_sources: tuple[str, ...]
    cuda_sources: tuple[str, ...] = ()
    functions: dict[str, str] | None = None
    """Names of functions to bind, each with its docstring; None if the sources define their own module."""
    extra_cflags: tuple[str, ...] = ()
    extra_cuda_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    extra_include_paths: tuple[str, ...] = ()
    implicit_headers: bool = True
    candidate_source: str = ""
    """Text of the candidate's whole file, in which lines of the sources are located."""

    @field_validator("functions", mode="before")
    @classmethod
    def _names_become_docstrings(cls, value: object) -> object:
        return {name: name for name in value} if isinstance(value, (list, tuple)) else value

    @property
    def cpp(self) -> str:
        return "\n".join(self.cpp_sources)

    @property
    def cuda(self) -> str:
        return "\n".join(self.cuda_sources)


def main_unit(request: BuildRequest) -> str:
    """Return the text of main.cpp, with #line directives to the candidate's file."""
    lines = locate(request.cpp, request.candidate_source)
    parts = ["#include <torch/extension.h>"] if request.implicit_headers else []
    parts.append(with_directives(request.cpp, lines, "cpp_sources"))
    if request.functions is not None:
        bindings = [
            f"m.def({json.dumps(name)}, torch::wrap_pybind_function({name}), {json.dumps(doc)});"
            for name, doc in request.functions.items()
        ]
        parts += ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", f'#line 1 "{BINDINGS}"', *bindings, "}"]
    return "\n".join(parts) + "\n"


def binding_line(request: BuildRequest, function: str) -> int | None:
    """Return the line of the candidate's file that names `function` in a list or dict of names to bind."""
    try:
        tree = syntax_tree(request.candidate_source)
    except SyntaxError:
        return None
    named = [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == function
    ]
    return min(named) if named else None


def definitions(text: str, function: str) -> list[str]:
    """Return the signatures of all definitions of `function` in C++ text, each as one line."""
    pattern = re.compile(
        rf"(?m)^[ \t]*((?:[\w:<>,*&\[\]\" ]+?[\s*&]){re.escape(function)}\s*\([^;{{}}]*\))\s*\{{"
    )
    return [" ".join(match[1].split()) for match in pattern.finditer(text)]
