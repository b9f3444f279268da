"""What a composed file looks like, and what is declined with which words."""

import re
from pathlib import Path
from typing import Any

import pytest
from compose.sample import launches, made, reference

from agent.compose.composing import _job, composed
from agent.compose.declined import Declined
from agent.compose.pointwise import common

PRODUCTS = {"matmul"}
"""Shipped references that are nothing else."""


def test_a_chain_of_elementwise_operators_is_one_kernel() -> None:
    assert len(launches(made("return F.gelu(x * 2 + 1).tanh().clamp(0, 1)"))) == 1


def test_the_opposite_of_a_mask_is_no_bitwise_complement() -> None:
    """In C, ~ of a bool is never false."""
    text = made("return x.masked_fill(~(x > 0), 0.0)")
    assert "~" not in text
    assert re.search(r"!\w", text)


def test_rounding_to_decimals_is_declined() -> None:
    with pytest.raises(Declined, match="round to decimals"):
        made("return torch.round(x, decimals=2)")


def test_two_half_precisions_are_compared_in_single() -> None:
    assert common(["float16", "bfloat16"]) == "float32"
    assert common(["float16", "bfloat16", "float64"]) == "float64"


def test_imports_of_the_future_stand_first() -> None:
    source = "from __future__ import annotations\n" + reference("return torch.relu(x) + 1")
    text = composed([source, source.replace("BATCH = 6", "BATCH = 2")], "sample")
    compile(text, "composed.py", "exec")
    assert text.index("__future__") < text.index("load_inline")


def test_softmax_behind_a_norm_is_one_kernel_of_rows() -> None:
    text = made("return F.softmax(self.norm(x), dim=-1)", "self.norm = nn.LayerNorm(10)")
    assert len(launches(text)) == 1
    assert text.count(" = Softmax::none<") == 1
    assert text.count(" = Moments::none<") == 1


def test_products_stay_torchs_and_what_follows_is_fused() -> None:
    text = made("return F.relu(self.last(x)) * 0.5", "self.last = nn.Linear(10, 4)")
    assert "torch.addmm(" in text
    assert len(launches(text)) == 1


def test_views_of_what_products_take_and_give_are_pythons() -> None:
    text = made(
        "q = self.last(x); return F.softmax(q @ q.transpose(1, 2), -1)", "self.last = nn.Linear(10, 4)"
    )
    assert launches(text) == ["fused_softmax"]
    assert "torch.bmm(addmm.view(" in text
    assert ".permute(0, 2, 1))" in text


def test_sizes_come_from_tensors() -> None:
    text = made("return (x + 1).reshape(x.shape[0] * 2, -1) * 2")
    forward = text[text.index("def forward") :]
    assert "6" not in forward
    assert "x.shape[0]" in forward


def test_the_constructor_is_the_references_own() -> None:
    text = made("return F.relu(self.norm(x))", "self.norm = nn.BatchNorm1d(8)  # as it was")
    assert "class ModelNew(nn.Module)" in text
    assert "self.norm = nn.BatchNorm1d(8)" in text
    assert 'self.get_buffer("norm.running_mean")' in text
    assert "get_inputs" not in text
    assert "BATCH" not in text


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("return torch.fft.fft(x).real", "aten._fft_c2c|aten._fft_r2c"),
        ("return {'result': x + 1}", "forward returns dict"),
        ("return x + 1, 3", "forward returns tuple, not a tensor or a tuple of tensors"),
        ("return F.relu(x) if x.sum() > 0 else F.gelu(x)", "depends on the contents of tensors"),
        ("return x[x > 0] * 2", "depends on the contents of tensors .aten.nonzero"),
        ("return torch.complex(x, x).abs()", "complex64 are not composed yet .aten.complex"),
        ("return torch.rand_like(x) + x", "aten.rand"),
        ("self.kept.copy_(x[0, 0]); return self.kept + x", "changes a tensor in place that is no input"),
        ("return x[:, :, x.shape[0]:] + 1", "without elements|other sizes|follows from"),
        ("return F.relu(x) if x.shape[0] > 4 else F.gelu(x)", "other operators at other sizes"),
    ],
)
def test_what_cannot_be_composed_is_named(forward: str, why: str) -> None:
    with pytest.raises(Declined, match=why):
        made(forward, "self.kept = torch.zeros(10)")


def test_what_cannot_be_traced_is_declined_as_well() -> None:
    source = reference("self.kept.copy_(x[0, 0]); return self.kept + x", "self.kept = torch.zeros(10)")
    job: dict[str, Any] = {"sources": [source], "name": "sample", "arch": None}
    job |= {"own_products": False, "changes": [{}]}
    assert "changes a tensor in place" in _job(job, print)["declined"]


def test_an_input_that_is_a_number_is_checked_at_run_time() -> None:
    source = reference("return x * 2").replace("def forward(self, x):", "def forward(self, x, factor):")
    source = source.replace("return x * 2", "return x * factor").replace("8, 10)]", "8, 10), 3.5]")
    assert "if factor != 3.5:" in composed([source], "sample")


def test_an_input_of_complex_numbers_is_declined() -> None:
    source = reference("return F.relu(x.real)").replace("8, 10)", "8, 10, dtype=torch.complex64)")
    with pytest.raises(Declined, match=r"numbers of complex64 are not composed yet \(x\)"):
        composed([source], "sample")


def test_an_argument_that_is_left_to_its_default_is_none_of_the_files() -> None:
    source = reference("return x * 2").replace("def forward(self, x):", "def forward(self, x, mask=None):")
    assert "def forward(self, x):" in composed([source], "sample")


def test_the_shipped_references_are_composed() -> None:
    products = set()
    for path in sorted((Path(__file__).parents[2] / "references").rglob("*.py")):
        text = composed([path.read_text("utf-8")], path.stem)
        products |= set() if launches(text) else {path.stem}
    assert products == PRODUCTS


def test_a_thread_takes_neighbours_at_once_where_nothing_branches() -> None:
    plain = made("return x * self.scale", "self.scale = nn.Parameter(torch.ones(8, 1))")
    assert "template <typename I, int V>" in plain
    assert (
        "const int by = n0 % 4 == 0 && is_aligned(out) && is_aligned(in_x) && is_aligned(in_scale)" in plain
    )
    windows = made("return F.max_pool1d(x, 2)")
    assert "typename I, int V>" not in windows
    assert "<<<" in windows


def test_the_size_of_a_pooling_counts_the_distance_within_its_windows() -> None:
    text = made("return F.max_pool1d(x.permute(1, 2, 0), 2, stride=1, padding=1, dilation=3)")
    assert "(x.shape[0] + -2) // 1 + 1" in text[text.index("def forward") :]


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ("kernel_size=3, stride=2", "({} + -2) // 2 + 1"),
        ("kernel_size=2, stride=3, padding=1", "min(({} + 2) // 3 + 1, ({} + 0) // 3 + 1)"),
    ],
)
def test_the_size_of_a_pooling_counts_windows_over_the_end(settings: str, count: str) -> None:
    source = SQUARE.replace("avg_pool2d(x, 2)", f"max_pool2d(x, {settings}, ceil_mode=True)")
    larger = source.replace("16, 16, 4", "48, 81, 4")
    text = composed([source, larger], "sample")
    for given in ("x.shape[2]", "x.shape[3]"):
        assert count.format(given, given) in text


def test_a_part_of_a_concatenation_is_read_by_its_own_sizes() -> None:
    text = made("return torch.cat([x, x * 2], 1)")
    assert "in_x[at]" not in text
    assert text.count("= in_x[((i0 * ") == 2
    assert launches(made("return torch.cat([x.sum(2), x[:, :, 0]], 1)")) == ["fused_sum", "fused_cat"]


def test_loop_variables_that_nothing_reads_are_not_computed() -> None:
    text = made("return x * self.scale", "self.scale = nn.Parameter(torch.ones(8, 1))")
    assert re.findall(r"const I (i\d)\w* =", text) == ["i1"]


def test_a_result_across_its_rows_is_written_by_a_kernel_of_its_own() -> None:
    text = made(
        "return x.sum(2, keepdim=True).transpose(0, 2) + self.more",
        "self.more = nn.Parameter(torch.ones(5, 1, 1))",
    )
    assert launches(text) == ["fused_sum", "fused_add"]


def test_a_long_reduction_is_in_two_steps_however_long_it_is() -> None:
    source = reference("return (x * 2).sum()").replace("8, 10)", "1 << 14, 1 << 14)")
    text = composed([source, source.replace("BATCH = 6", "BATCH = 2").replace("1 << 14", "96")], "sample")
    assert launches(text) == ["fused_sum", "fused_sum_2"]
    assert text.count("const I left0 = ") == 1


def test_a_scan_goes_by_tiles_of_all_threads() -> None:
    text = made("return torch.cumsum(x, 2)")
    assert "first += blockDim.x * V" in text
    assert "constexpr int V = 1;" in made("return torch.cumsum(x, 1)")


def test_a_loss_of_rows_is_computed_with_its_rows() -> None:
    text = made("return F.cross_entropy(x.flatten(0, 1), x[:, :, 0].flatten().long() * 0)")
    assert launches(text) == ["fused_where", "fused_div"]
    assert "Exponentials" not in text[text.index("void fused_where(") :]


def test_the_first_place_of_an_extreme_is_found_by_one_pass() -> None:
    text = made("return x.argmax(dim=1)")
    assert launches(text) == ["fused_argmax"]
    assert text.count("of_row<Argmax>(") == 1
    assert "of_row<Max>" not in text[text.index("// argmax:") :]


def test_a_change_of_schedules_stands_in_the_file() -> None:
    sources = [
        reference("return torch.softmax(x, 2)"),
        reference("return torch.softmax(x, 2)").replace("= 6", "= 2"),
    ]
    text = composed(sources, "sample", change={"unroll": 1, "threads": -1})
    assert "// Schedule: blocks of 1 << 7 threads, 8 steps of a row read at once." in text
    assert "#pragma unroll 8" in text
    assert "__launch_bounds__(1 << 7)" in text
    wide = composed(
        [source.replace("softmax(x, 2)", "relu(x)") for source in sources], "sample", change={"vectors": 2}
    )
    assert "#pragma unroll 4" in wide
    assert "const int64_t each = block.x * 4;" in wide


def test_indices_are_divided_without_a_division() -> None:
    text = made("return x * self.scale", "self.scale = nn.Parameter(torch.ones(8, 1))")
    assert "const I i1 = at_by / d" in text
    assert "Divisor<int>(n0 / by)" in text
    assert "Divisor<int64_t>(n0 / by)" in text


def test_a_class_that_stands_below_where_it_is_named_is_taken_over() -> None:
    source = reference("return self.last(x)", "self.last = Outer()").replace(
        "\nclass Model(",
        "\nclass Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.inner = Inner()\n    def forward(self, x):\n        return self.inner(x)\n"
        "class Inner(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
        "class Unused(nn.Module):\n    pass\nclass Model(",
    )
    text = composed([source, source.replace("BATCH = 6", "BATCH = 2")], "sample")
    assert text.index("class Outer(") < text.index("class Inner(") < text.index("class ModelNew(")
    assert "Unused" not in text


def test_kernels_that_are_alike_are_written_once() -> None:
    layers = "F.relu(self.last(F.relu(self.last(x[0]))))"
    text = made(f"return {layers}, torch.relu(x)", "self.last = nn.Linear(10, 10)")
    assert launches(text) == ["fused_relu", "fused_relu", "fused_relu_3"]
    assert text.count("__global__ void") == 2
    assert re.findall(r"(\w+) = torch.empty", text) == ["relu", "relu_2", "relu_3"]


def test_a_constant_that_only_a_parameter_is_called_like_is_left_out() -> None:
    source = reference("return x + self.shift", "self.shift = SHIFT").replace(
        "__init__(self)", "__init__(self, BATCH=3)"
    )
    text = composed(["SHIFT = 2\n" + source] * 2, "sample")
    assert "BATCH = 6" not in text
    assert "SHIFT = 2" in text


def test_sizes_that_are_equal_by_chance_are_those_of_what_a_kernel_reads() -> None:
    text = made("return F.relu(self.last(x)) * 0.5", "self.last = nn.Linear(10, 10)")
    assert "torch.empty([x.shape[0], x.shape[1], x.shape[2]]" not in text
    assert "addmm.shape[1]" in text


def test_an_index_into_the_last_dimension_ends_where_that_does() -> None:
    text = made("return F.relu(x + self.shift)", "self.shift = nn.Parameter(torch.ones(10))")
    assert re.findall(r"const I i2 = (.+);", text) == ["at_by % d0 * V + u"]


SQUARE = """import torch
import torch.nn as nn
batch, height, width, heads = 4, 16, 16, 4
class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
    def forward(self, x):
        x = nn.functional.avg_pool2d(x, 2)
        return torch.softmax(x.view(x.shape[0], self.heads, -1), dim=2)
def get_inputs():
    return [torch.randn(batch, heads, height, width)]
def get_init_inputs():
    return [heads]
"""
