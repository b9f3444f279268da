"""Python text as a syntax tree and as numbered lines.

Contract: may be asked from any thread. CPython 3.11 counts the depth of the trees that it makes in one place
for all threads and raises SystemError where two of them parse at once, so one at a time does.
"""

import ast
import re
import warnings
from threading import Lock

_ONE_AT_A_TIME = Lock()


def syntax_tree(source: str) -> ast.Module:
    """The tree of a Python source. Raises SyntaxError alone, also for null bytes and absurd nesting."""
    try:
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            # An invalid escape in a CUDA string is legal Python and nobody's news here.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"it cannot be read as Python ({error})") from error


def source_lines(source: str) -> list[str]:
    """The lines as the parser counts them: `str.splitlines` would also split at form feeds and the like."""
    return re.split(r"\r\n|\r|\n", source)
