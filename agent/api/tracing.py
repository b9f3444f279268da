"""Traces of references, cached across commands if they depend on the reference's text alone."""

import ast
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from agent import problems
from agent.harness.disk_cache import Waiting, cached
from agent.python_source import syntax_tree
from agent.records import Problem, Trace, digest

_FIXED = frozenset(
    {"__future__", "collections", "dataclasses", "einops", "enum", "functools", "itertools", "math", "numpy",
     "operator", "torch", "typing"}
)  # fmt: skip
"""Imports that keep a trace cacheable.

They come with torch, or are standard modules without access to clock, files or environment.
"""
_FUNCTIONS = frozenset({"__import__", "compile", "eval", "exec", "open"})
_MEMBERS = frozenset({"fromfile", "hub", "load", "open", "random"})
"""Attributes that make a trace uncacheable.

They reach files through the packages in `_FIXED`, or draw random numbers, as numpy's `random` does.
"""


def load(
    address: str, kernelbench_root: Path | None, cache_dir: Path, waiting: Waiting = lambda: None
) -> Problem:
    """Load a reference as `problems.load` does, with its trace from `cache_dir` if it is cached there.

    Tracing takes seconds. `waiting` is called before a wait for another process that traces the same
    reference.
    """

    def remembered(source: str, make: Callable[[], Trace]) -> Trace:
        if not depends_on_its_text_alone(source):
            return make()
        key = digest(source, version("torch"), platform.python_version(), problems.code())
        return cached(cache_dir / "traces" / f"{key[:32]}.json", Trace, make, waiting)

    return problems.load(address, kernelbench_root=kernelbench_root, remembered=remembered)


def depends_on_its_text_alone(source: str) -> bool:
    """Return True if a reference reads nothing that may change between runs, such as a file or a clock."""
    for node in ast.walk(syntax_tree(source)):
        if isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] not in _FIXED for alias in node.names):
                return False
        elif isinstance(node, ast.ImportFrom):
            # A relative import names none of the packages in `_FIXED`, so its code may change.
            if node.level or (node.module or "").split(".")[0] not in _FIXED:
                return False
        elif isinstance(node, ast.Name):
            if node.id in _FUNCTIONS:
                return False
        elif isinstance(node, ast.Attribute) and node.attr in _MEMBERS:
            return False
    return True
