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
        "self.last = nn.Conv1d(8, 4, 3, padding=1); self.more = nn.Linear(10, 5)",
    )
    text = composed([source, source.replace("BATCH = 6", "BATCH = 2")], "sample", own_products=True)
    assert "conv_fp32x3(x, " in text
    assert "matmul_fp32x3(" in text
    assert not re.search(r"torch\.(convolution|addmm|mm|bmm)\(", text)
    assert launches(text) == ["fused_relu"]
    mixed = reference("return torch.mm(x[0].double(), x[0].double().t())")
    with pytest.raises(Declined, match="no shipped kernel takes this mm, and torch's is not allowed"):
        composed([mixed], "sample", own_products=True)


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


def own(forward: str, init: str = "pass") -> str:
    source = reference(forward, init)
    return composed([source, source.replace("BATCH = 6", "BATCH = 2")], "sample", own_products=True)


def test_a_triangle_is_told_to_the_product() -> None:
    text = own("return torch.triu(x.tril() @ x.triu().mT).relu()")
    assert "bmm = matmul_fp32x3(x, x.permute(0, 2, 1), parts=('lower', 'lower', 'upper'))" in text
    assert "matmul_fp32x3(x, x.permute(0, 2, 1), parts=('whole', 'whole', 'lower'))" in own(
        "return torch.tril(x @ x.mT)"
    )
    assert launches(text) == ["fused_relu"]
    assert "parts=(" not in own("y = x @ x.mT; return torch.triu(y), y + 1")
    assert "parts=(" not in own("return torch.triu(x @ x.mT, 1)")
    assert "parts=(" not in own("return x.tril(2) @ x.mT")
    assert "torch.bmm(tril, " in made("return torch.relu(x.tril() @ x.mT)")


def test_a_product_with_a_diagonal_is_a_factor() -> None:
    for text in (made("return torch.diag(x[0, 0, :8]) @ x"), made("return x @ torch.diag_embed(x[:, 0])")):
        assert len(launches(text)) == 1
        assert "torch.mm(" not in text
        assert "torch.bmm(" not in text


def test_products_that_memory_bounds_are_kernels_where_none_may_be_torchs() -> None:
    for forward in (
        "return x[0, :3] @ x[0].mT", "return self.last(x[:, 0])", "return x[:, :, :4] @ x[:, :4]",
        "return torch.outer(x[0, 0], x[0, 1])",
    ):  # fmt: skip
        text = own(forward, "self.last = nn.Linear(10, 4)")
        assert "fp32x3" not in text
        assert "torch.addmm" not in text
    assert "torch.addmm(" in made("return self.last(x[:, 0]).relu()", "self.last = nn.Linear(10, 4)")


def test_another_form_of_a_product_is_tried_where_a_clock_decides() -> None:
    def forms(forward: str, init: str, arch: str | None = None) -> list[str]:
        source = reference(forward, init).replace("8, 10)", "256, 56, 56)").replace("BATCH = 6", "BATCH = 64")
        sources = [source, source.replace("BATCH = 64", "BATCH = 2")]
        return [composed(sources, "sample", arch, change=change) for change in ({}, {"forms": 1})]

    kept, other = forms("return self.last(x).relu()", "self.last = nn.Conv2d(256, 512, 1)", "90a")
    assert "convolution = torch.convolution(x, " in kept
    assert (
        'matmul_fp32x3(self.get_parameter("last.weight").flatten(1), x.flatten(2), '
        'self.get_parameter("last.bias").unsqueeze(-1)).unflatten(2, x.shape[2:])'
    ) in other
    kept, other = forms("return self.last(x).relu()", "self.last = nn.Conv2d(256, 512, 3, groups=256)")
    assert "torch.convolution(" in kept
    assert "torch.convolution(" not in other
    assert len(launches(other)) == 1


def test_products_of_16_bits_are_ours_where_none_may_be_torchs_or_a_clock_decides() -> None:
    forward, init = "return self.last(x.half()).relu()", "self.last = nn.Linear(10, 12, dtype=torch.half)"
    text = own(forward, init)
    assert "matmul_half(" in text
    assert "matmul_half_extension = load_inline(" in text
    assert launches(text) == ["fused_t", "fused_relu"]
    assert "parts=(" not in own("return torch.tril(x.bfloat16() @ x.bfloat16().mT)")
    one = "self.last = nn.Conv1d(8, 12, 1, dtype=torch.bfloat16)"
    assert "matmul_half(" in own("return self.last(x.bfloat16())", one)
    source = reference(forward, init)
    for arch, change, is_ours in (
        ("80", {"forms": 1}, True), ("90a", {"forms": 1}, True), ("75", {"forms": 1}, False),
        (None, {"forms": 1}, False), ("90a", {}, False),
    ):  # fmt: skip
        text = composed([source, source.replace("BATCH = 6", "BATCH = 2")], "sample", arch, change=change)
        assert ("matmul_half(" in text) is is_ours
        assert ("torch.addmm(" in text) is not is_ours


def test_a_slice_or_an_expanded_operand_of_a_product_is_not_copied() -> None:
    text = made("return torch.relu(x[:, 1:5] @ x[0].mT.expand(x.shape[0], 10, 8)[:, :, 2:])")
    assert "torch.bmm(x.narrow(1, 1, " in text
    assert ", x.select(0, 0).permute(1, 0).expand(x.shape[0], 10, 8).narrow(2, 2, 6))" in text
    assert launches(text) == ["fused_relu"]
