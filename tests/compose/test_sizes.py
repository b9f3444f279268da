"""Sizes of a composed file: what follows from a shape, what is a literal, and what is checked."""

import re

import pytest

from agent.compose.composing import About, _at_all_sizes

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def answer(forward: str, inputs: str, sizes: str = "", init: str = "pass", arguments: str = "") -> str:
    """Return `forward` of the file that is composed for a reference with these lines."""
    names = re.findall(r"(\w+):", inputs) or ["x"]
    given = re.sub(r"\w+: ", "", inputs)
    source = (
        f"{HEAD}{sizes}\nclass Model(nn.Module):\n"
        f"    def __init__(self{', ' * bool(arguments)}{arguments}):\n"
        f"        super().__init__()\n        {init}\n    def forward(self, {', '.join(names)}):\n"
        f"        {forward}\ndef get_inputs():\n    return [{given}]\n"
        f"def get_init_inputs():\n    return [{arguments}]\n"
    )
    [text] = _at_all_sizes([source], About(source, "sample"), [{}])
    return text[text.index("def forward(") :]


def test_a_literal_beside_a_small_input_stays_a_literal() -> None:
    text = answer("return x.new_full((512, 1024), 3.5) + x.sum()", "torch.randn(2, 2)")
    assert "torch.empty([512, 1024]" in text
    assert "* 256" not in text


def test_groups_that_are_as_many_as_four_rows_stay_four() -> None:
    text = answer(
        "b, c, n = x.shape; return x.view(b, 4, c // 4, n).softmax(2).sum(3)", "torch.randn(2, 64, 40)"
    )
    assert "x.shape[0] * x.shape[0]" not in text
    assert "x.shape[1] // 4" in text


def test_pages_and_heads_that_are_equal_by_chance_are_two_sizes() -> None:
    text = answer(
        "return q @ cache[table].reshape(q.shape[0], -1, q.shape[2]).transpose(1, 2)",
        "q: torch.randn(4, heads, 64), cache: torch.randn(32, 16, 64), table: torch.zeros(4, 8).long()",
        "heads = 16",
    )
    assert "cache.shape[1]" in text
    assert "q.shape[1] *" not in text


def test_halves_are_not_divided_by_the_number_of_groups() -> None:
    text = answer(
        "a, b = torch.bmm(x[:, None], weight[group])[:, 0].chunk(2, dim=-1); return F.silu(a) * b",
        "x: torch.randn(64, 128), weight: torch.randn(groups, 128, 256), group: torch.zeros(64).long()",
        "groups = 2",
    )
    assert "// 2" in text
    assert "// weight.shape[0]" not in text


def test_a_loop_over_a_size_says_at_which_size_it_holds() -> None:
    text = answer(
        "s, out = torch.zeros_like(x[:, :, 0]), []\n"
        "        for i in range(x.shape[2]):\n            s = 0.5 * s + x[:, :, i]; out.append(s)\n"
        "        return torch.stack(out, dim=2)",
        "torch.randn(2, 64, 5)",
    )
    assert "if x.shape[2] != 5:" in text
    assert "composed for x.shape[2] = 5" in text
    assert "x.shape[0] *" not in text


def test_two_dimensions_that_have_to_be_equal_are_checked() -> None:
    text = answer("return x + x.transpose(0, 1)", "torch.randn(8, 8)")
    assert "if x.shape[1] != x.shape[0]:" in text


def test_dimensions_that_are_equal_by_chance_are_not_checked() -> None:
    text = answer("return torch.softmax(x, 1)", "torch.randn(8, 8)")
    assert "raise ValueError" not in text
    assert "x.shape[1]" in text


@pytest.mark.parametrize("width", [16, 64, 128])
def test_a_scale_follows_from_the_size_whose_root_it_is(width: int) -> None:
    text = answer("return x * x.shape[1] ** -0.5 + 1", f"torch.randn(6, {width})")
    assert "raise ValueError" not in text


@pytest.mark.parametrize("factor", ["2 / x.shape[1]", "0.1 * x.numel()", "1 / (x.shape[1] - 1)"])
def test_a_number_that_is_computed_from_sizes_follows_from_them(factor: str) -> None:
    text = answer(f"return x * ({factor}) + 1", "torch.randn(6, 30)")
    assert "raise ValueError" not in text


def test_heads_of_the_constructor_are_read_from_the_module() -> None:
    text = answer(
        "return torch.softmax(x.view(x.shape[0], self.heads, -1), dim=2)",
        "torch.randn(6, width)", "heads, width = 4, 64", "self.heads = heads", "heads",
    )  # fmt: skip
    assert "self.heads" in text
    assert "x.shape[1] // self.heads" in text


def test_sizes_of_a_pooling_are_told_apart() -> None:
    text = answer("return F.avg_pool2d(x, 2) * 2", "torch.randn(4, 4, 16, 16)")
    assert "(x.shape[2] + -2) // 2 + 1" in text
    assert "(x.shape[3] + -2) // 2 + 1" in text


def test_a_part_that_is_rounded_follows_from_its_size() -> None:
    text = answer("return x[:, : x.shape[1] // 2] * 2", "torch.randn(6, 17)")
    assert "x.shape[1] // 2" in text
