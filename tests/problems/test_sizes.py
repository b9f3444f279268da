"""Which integers of a source are sizes, and rewriting them in place."""

import pytest

from agent.problems.sizes import constructor_sizes, module_sizes, rewritten

SOURCE = '''"""Größe ändert Byte-Positionen: é."""
import torch

batch, channels = 128, 64  # ünïcode, 128 here stays
hidden: int = 4 * 1024
shape = (1, 512, [96, hidden])
power = 1 << 14
eps = 1e-5
flag = True
derived = hidden // 2
offset = -3
limit: int
label = "128"


def get_inputs():
    rows = 128
    return [torch.rand(batch, channels)]


def get_init_inputs():
    return [derived, shape]
'''


def test_integers_at_module_level_are_found_with_their_names() -> None:
    assert [(size.name, size.value) for size in module_sizes(SOURCE)] == [
        ("batch", 128),
        ("channels", 64),
        ("hidden", 4096),
        ("shape[0]", 1),
        ("shape[1]", 512),
        ("shape[2][0]", 96),
        ("power", 16384),
    ]


def test_only_the_digits_of_sizes_change() -> None:
    changed = rewritten(SOURCE, {128: 32, 4096: 256, 512: 48, 16384: 1024})
    assert changed == (
        SOURCE.replace("= 128, 64", "= 32, 64")
        .replace("4 * 1024", "256")
        .replace("(1, 512,", "(1, 48,")
        .replace("1 << 14", "1024")
    )
    assert rewritten(SOURCE, {}) == SOURCE


def test_sizes_reach_the_constructor_through_other_names() -> None:
    assert constructor_sizes(SOURCE) == {4096, 1, 512, 96}


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("a = b = 40", [40, 40]),
        ("[a, (b, c)] = 1, (2, 3)", [1, 2, 3]),
        ("a, b = shape", []),
        ("a = 2 ** 10 - 24 // 3 + 1", [1017]),
        ("a = 1 // 0", []),
        ("a = 1 << 100_000", []),
        ("a = 2 ** -1", []),
        ("a = 0", []),
        ("a.b = 64", []),
        ("a += 64", []),
        ("a = (\n    64\n)", [64]),
    ],
)
def test_forms_of_assignment(line: str, values: list[int]) -> None:
    assert [size.value for size in module_sizes(line)] == values
    assert [size.value for size in module_sizes(rewritten(line, {64: 32}))] == [
        32 if v == 64 else v for v in values
    ]
