"""Python text as a syntax tree and as numbered lines."""

import ast
import re
import warnings


def syntax_tree(source: str) -> ast.Module:
    """The tree of a Python source. Raises SyntaxError alone, also for null bytes and absurd nesting."""
    try:
        with warnings.catch_warnings():
            # An invalid escape in a CUDA string is legal Python and nobody's news here.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"it cannot be read as Python ({error})") from error


def source_lines(source: str) -> list[str]:
    """The lines as the parser counts them: `str.splitlines` would also split at form feeds and the like."""
    return re.split(r"\r\n|\r|\n", source)
