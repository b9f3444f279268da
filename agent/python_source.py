"""Syntax trees and lines of Python text.

Contract: the functions are thread-safe. CPython 3.11 keeps one recursion depth of the parser for all threads
and raises SystemError if two threads parse at once. Parsing therefore takes a lock.
"""

import ast
import re
import warnings
from threading import Lock

_ONE_AT_A_TIME = Lock()


def syntax_tree(source: str) -> ast.Module:
    """Return the tree of a Python source. Raises only SyntaxError, even for null bytes and deep nesting."""
    try:
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            # An invalid escape in a CUDA string is legal Python and needs no warning here.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"it cannot be read as Python ({error})") from error


def source_lines(source: str) -> list[str]:
    """Return the lines as the parser counts them. `str.splitlines` would also split at form feeds."""
    return re.split(r"\r\n|\r|\n", source)
