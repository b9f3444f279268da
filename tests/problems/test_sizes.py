"""Which integers of a source are sizes, and rewriting them in place."""

from typing import Any

import pytest

from agent.problems.sizes import constructor_sizes, rewritten, sizes

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


class Model:
    def __init__(self, hidden, shape, depth=6, window=1 << 4, scale=0.5, norm=None, *, bias=8):
        self.inside = 99


def get_inputs():
    rows = 40 + 8
    ids = torch.randint(0, 1000, (batch // 2, 24)) * 7
    return [torch.rand(2 * batch - 1, channels), ids, "128", [3, 5][0]]


def get_init_inputs():
    return [derived, shape]
'''


def test_integers_are_found_under_names_of_their_own() -> None:
    assert {size.name: size.value for size in sizes(SOURCE)} == {
        "batch": 128,
        "channels": 64,
        "hidden": 4096,
        "shape[0]": 1,
        "shape[1]": 512,
        "shape[2][0]": 96,
        "power": 16384,
        "get_inputs[0]": 48,
        "get_inputs[1]": 1000,
        "get_inputs[2]": 24,
        "get_inputs[3]": 3,
        "get_inputs[4]": 5,
        "Model(depth)": 6,
        "Model(window)": 16,
    }


def test_only_the_digits_of_sizes_change() -> None:
    new = {"batch": 32, "hidden": 256, "shape[1]": 48, "power": 1024, "get_inputs[0]": 8, "get_inputs[2]": 6}
    changed = rewritten(SOURCE, new)
    assert changed == (
        SOURCE.replace("= 128, 64", "= 32, 64")
        .replace("4 * 1024", "256")
        .replace("(1, 512,", "(1, 48,")
        .replace("1 << 14", "1024")
        .replace("40 + 8", "8")
        .replace("2, 24)", "2, 6)")
    )
    assert rewritten(SOURCE, {}) == rewritten(SOURCE, {"batch": 128}) == SOURCE


def test_a_changed_default_is_handed_over_with_those_before_it() -> None:
    changed = rewritten(SOURCE, {"Model(window)": 4})
    assert changed.startswith(SOURCE)
    names: dict[str, Any] = {}
    exec(changed.replace("import torch", ""), names)
    assert names["get_init_inputs"]() == [2048, (1, 512, [96, 4096]), 6, 4]
    assert "= 9\n" not in rewritten(SOURCE, {"Model(bias)": 9}), "a keyword alone cannot be handed over"


@pytest.mark.parametrize("returned", ["[*shape]", "list(shape)", "[derived]"])
def test_defaults_stay_where_the_given_arguments_cannot_be_counted(returned: str) -> None:
    unclear = SOURCE.replace("return [derived, shape]", f"return {returned}")
    assert not [size for size in sizes(unclear) if size.span is None]


def test_sizes_reach_the_constructor_through_other_names() -> None:
    reaching = constructor_sizes(SOURCE)
    assert reaching == {"hidden", "shape[0]", "shape[1]", "shape[2][0]", "Model(depth)", "Model(window)"}


def test_one_integer_with_two_names_is_one_size() -> None:
    source = "height = width = 256\ndef get_init_inputs():\n    return [width]\n"
    assert [size.name for size in sizes(source)] == ["height"]
    assert constructor_sizes(source) == {"height"}
    assert rewritten(source, {"height": 32}).startswith("height = width = 32\n")


def test_a_name_that_is_assigned_twice_gives_two_sizes() -> None:
    source = "n = 64\nn = 32\n"
    assert [(size.name, size.value) for size in sizes(source)] == [("n", 64), ("n#2", 32)]
    assert rewritten(source, {"n#2": 8}) == "n = 64\nn = 8\n"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("a = b = 40", [40]),
        ("a = [1024] * 16", [1024]),
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
    found = sizes(line)
    assert [size.value for size in found] == values
    changed = rewritten(line, {size.name: 32 for size in found if size.value == 64})
    assert [size.value for size in sizes(changed)] == [32 if v == 64 else v for v in values]


def test_defaults_of_the_functions_that_are_called_without_arguments_are_sizes() -> None:
    source = (
        "class Model: pass\n"
        "def get_inputs(rows=64, /, shape=(240, 4 * 14), scale=0.5, *, other=None, columns=777):\n"
        "    return [torch.rand(rows, columns), torch.rand(*shape, 8)]\n"
        "def get_init_inputs(features=96):\n"
        "    return [features]\n"
    )
    assert {size.name: size.value for size in sizes(source)} == {
        "get_inputs[0]": 8,
        "get_inputs(rows)": 64,
        "get_inputs(shape[0])": 240,
        "get_inputs(shape[1])": 56,
        "get_inputs(columns)": 777,
        "get_init_inputs(features)": 96,
    }
    assert constructor_sizes(source) == {"get_init_inputs(features)"}
    changed = rewritten(
        source, {"get_inputs(rows)": 2, "get_inputs(shape[1])": 24, "get_inputs(columns)": 41}
    )
    assert changed == source.replace("rows=64", "rows=2").replace("4 * 14", "24").replace("=777", "=41")
