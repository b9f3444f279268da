"""Mends of the Python code around the sources: imports, and the name of the module."""

import ast
import re

from agent.diagnosis.build import headers
from agent.mend.extension import Extension
from agent.records import Finding

_NAMED = re.compile(r"`(\w+)`")


def import_name(extension: Extension, finding: Finding) -> Extension | None:
    """Add the import of the name in the finding before the first statement that may need it."""
    named = _NAMED.search(finding.message)
    statement = headers.import_for(named[1]) if named else None
    if statement is None:
        return None
    at = extension.offset(_first_statement(extension.tree), 0)
    return extension.replaced(at, at, f"{statement}\n", f"added `{statement}`")


def _first_statement(tree: ast.Module) -> int:
    """Return the line of the first statement after the docstring and the imports from `__future__`."""
    for number, node in enumerate(tree.body):
        docstring = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not docstring and not future:
            return node.lineno
    return 1


def name_model(extension: Extension, finding: Finding) -> Extension | None:
    """Name the file's only torch module `ModelNew`, and keep its own name."""
    modules = [
        node
        for node in extension.tree.body
        if isinstance(node, ast.ClassDef) and any(_is_module(base) for base in node.bases)
    ]
    if len(modules) != 1:
        return None
    end = len(extension.source)
    name = modules[0].name
    tail = "" if extension.source.endswith("\n") else "\n"
    return extension.replaced(end, end, f"{tail}\n\nModelNew = {name}\n", f"named {name} ModelNew")


def _is_module(base: ast.expr) -> bool:
    return ast.unparse(base).rpartition(".")[2] == "Module"
