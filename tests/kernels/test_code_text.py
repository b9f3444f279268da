"""Test that comments and docstrings leave the code that a verdict stands on as it is."""

from pathlib import Path

import pytest

from agent.kernels.code_text import code

PYTHON = '''"""A file."""

import torch  # the library

LIMIT = 4
"""Maximum number of calls."""


def scale(x):
    """Return the scaled input.

    Raises nothing.
    """
    text = """kept # here"""  # a comment
    return x * LIMIT, "kept // here", text
'''
CUDA = r"""// A file.
#include "block.cuh"  // shared
/* Return
   the sum. */
__device__ float sum(float a) {
    const char* text = "kept // here";  // a comment
    return a + 1.f / 2.f;
}
"""


def code_of(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return code(path)


@pytest.mark.parametrize(
    ("name", "text", "replaced", "same"),
    [
        ("a.py", PYTHON, [("Return the scaled input.", "Multiply."), ("# the library", "# torch")], True),
        ("a.py", PYTHON, [('"""Maximum number of calls."""\n', "")], True),
        ("a.py", PYTHON, [("kept # here", "changed # here")], False),
        ("a.py", PYTHON, [("kept // here", "kept")], False),
        ("a.py", PYTHON, [("LIMIT = 4", "LIMIT = 5")], False),
        ("a.cu", CUDA, [("// A file.", "// A longer comment\n// on two lines."), ("the sum", "a sum")], True),
        ("a.cu", CUDA, [("  // a comment", "")], True),
        ("a.cu", CUDA, [("kept // here", "kept")], False),
        ("a.cu", CUDA, [("1.f / 2.f", "1.f / 4.f")], False),
    ],
)
def test_only_the_code_counts(
    tmp_path: Path, name: str, text: str, replaced: list[tuple[str, str]], same: bool
) -> None:
    changed = text
    for old, new in replaced:
        assert old in changed
        changed = changed.replace(old, new)
    assert (code_of(tmp_path, name, text) == code_of(tmp_path, name, changed)) is same
