"""Which products and convolutions are a shipped kernel's in a composed file, and how they are called."""

import re

import pytest
from compose.sample import launches, made, reference

from agent.compose.composing import composed
from agent.compose.declined import Declined

LARGE = (
    reference("return F.relu(self.last(x)) * 0.5", "self.last = nn.Linear(1024, 2048)")
    .replace("BATCH = 6", "BATCH = 2048")
    .replace("BATCH, 8, 10", "BATCH, 1024")
)


def test_a_product_is_a_shipped_kernels_where_that_is_fast() -> None:
    sources = [LARGE, LARGE.replace("BATCH = 2048", "BATCH = 2")]
    text = composed(sources, "sample", "90a")
    assert 'addmm = matmul_fp32x3(x, self.get_parameter("last.weight").permute(1, 0), ' in text
    assert "matmul_fp32x3_extension = load_inline(" in text
    assert "matmul_fp32x3_extension.matmul_fp32x3(" in text
    assert "torch.addmm" not in text
    assert text.count("class ModelNew") == 1
    assert "torch.addmm(" in composed(sources, "sample")
    assert "torch.addmm(" in composed(sources[::-1], "sample", "90a")


def test_a_bare_product_is_a_shipped_kernels_on_any_gpu() -> None:
    text = made("return torch.matmul(x, x.transpose(1, 2))")
    assert "bmm = matmul_fp32x3(x, x.permute(0, 2, 1))" in text
    assert "wgmma" not in text
    assert "shipped products alone" in text


def test_no_product_stays_torchs_where_none_may() -> None:
    source = reference(
        "return F.relu(self.more(self.last(x)))",
        "self.last = nn.Conv1d(8, 4, 3); self.more = nn.Linear(8, 5)",
    )
    text = composed([source, source.replace("BATCH = 6", "BATCH = 2")], "sample", own_products=True)
    assert "conv_fp32x3(x, " in text
    assert "matmul_fp32x3(" in text
    assert not re.search(r"torch\.(convolution|addmm|mm|bmm)\(", text)
    assert launches(text) == ["fused_relu"]
    halves = reference("return torch.mm(x[0].half(), x[0].half().t())")
    with pytest.raises(Declined, match="no shipped kernel takes this mm, and torch's is not allowed"):
        composed([halves], "sample", own_products=True)


def test_a_product_with_one_column_is_the_sum_of_a_row() -> None:
    text = made("return torch.matmul(x, x[0, 0].unsqueeze(-1))")
    assert len(launches(text)) == 1
    assert "fp32x3" not in text


def test_a_convolution_is_a_shipped_kernels_with_its_bias() -> None:
    source = (
        reference("return self.last(x)", "self.last = nn.ConvTranspose2d(64, 64, 3, stride=2, padding=1)")
        .replace("BATCH = 6", "BATCH = 256")
        .replace("BATCH, 8, 10", "BATCH, 64, 56, 56")
    )
    text = composed([source, source.replace("BATCH = 256", "BATCH = 2")], "sample", "90a")
    assert "conv_transpose_fp32x3(x, " in text
    assert ', self.get_parameter("last.bias"), ((2, 2), (1, 1), (1, 1)), (0, 0), 1)' in text
    assert "stages = load_inline(" not in text
    compile(text, "sample", "exec")
    assert "torch.convolution(x, " in composed([source, source.replace("BATCH = 256", "BATCH = 2")], "sample")
