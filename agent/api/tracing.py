"""The trace of a reference, remembered from an earlier command where nothing but its text can change it."""

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
"""Packages that come with torch, and parts of the standard library without clock, file or environment."""
_FUNCTIONS = frozenset({"__import__", "compile", "eval", "exec", "open"})
_MEMBERS = frozenset({"fromfile", "hub", "load", "open", "random"})
"""Names by which a file can be reached all the same; numpy's `random` may draw other sizes each time."""


def load(
    address: str, kernelbench_root: Path | None, cache_dir: Path, waiting: Waiting = lambda: None
) -> Problem:
    """As `problems.load`, which takes seconds; the trace comes from `cache_dir` where it lies there.

    `waiting` is called before a wait for another process that traces the same reference.
    """

    def remembered(source: str, make: Callable[[], Trace]) -> Trace:
        if not depends_on_its_text_alone(source):
            return make()
        key = digest(source, version("torch"), platform.python_version(), problems.code())
        return cached(cache_dir / "traces" / f"{key[:32]}.json", Trace, make, waiting)

    return problems.load(address, kernelbench_root=kernelbench_root, remembered=remembered)


def depends_on_its_text_alone(source: str) -> bool:
    """Whether a reference reads nothing that may be otherwise next time, such as a file or a clock."""
    for node in ast.walk(syntax_tree(source)):
        if isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] not in _FIXED for alias in node.names):
                return False
        elif isinstance(node, ast.ImportFrom):
            # A relative import has no package of that name.
            if node.level or (node.module or "").split(".")[0] not in _FIXED:
                return False
        elif isinstance(node, ast.Name):
            if node.id in _FUNCTIONS:
                return False
        elif isinstance(node, ast.Attribute) and node.attr in _MEMBERS:
            return False
    return True
