"""Calls of everyday references: what is composed for them, and how a refusal names the line."""

import pytest
from compose.sample import made, reference

from agent.compose.composing import composed
from agent.compose.declined import Declined


@pytest.mark.parametrize(
    ("forward", "init"),
    [
        ("return self.norm(F.silu(x))", "self.norm = nn.RMSNorm(10)"),
        ("return F.binary_cross_entropy_with_logits(x, x * 2)", "pass"),
        ("return 1 - F.cosine_similarity(x, x * 2, dim=1)", "pass"),
        ("h = torch.empty_like(x); h[:, 0::2] = x[:, 1::2]; h[:, 1::2] = -x[:, 0::2]; return h", "pass"),
        ("return (x.to(torch.int32) >> 1) & 3", "pass"),
        ("return F.pad(x, (1, 1), mode='circular')", "pass"),
    ],
)
def test_what_torch_decomposes_into_operators_in_place_is_composed(forward: str, init: str) -> None:
    assert "stages.fused_" in made(forward, init)


def test_rows_are_added_at_places_by_atomics() -> None:
    text = made("return torch.zeros(4, 10).index_add(0, (x[0, :, 0] > 0).long(), x[0])")
    assert "atomicAdd(&out[" in text


def test_a_mask_chooses_what_is_written() -> None:
    text = made("h = x * 1; h[x > 0.5] = 2.0; return h")
    assert "atomicAdd" not in text
    assert "masked" in text


def test_the_largest_are_put_at_their_ranks() -> None:
    text = made("return x.topk(3, dim=1)")
    assert "// scatter" in text or "sorted" in text


def test_an_index_that_is_computed_stays_inside() -> None:
    text = made("return self.scale[(x[:, 0, 0] > 0).long()]", "self.scale = nn.Parameter(torch.ones(2, 5))")
    assert " - 1) ? " in text


def test_a_forward_without_a_tensor_takes_the_device_of_its_parameters() -> None:
    source = reference("return torch.sin(self.table) * scale", "self.table = nn.Parameter(torch.ones(4, 5))")
    source = source.replace("forward(self, x)", "forward(self, scale)")
    source = source.replace("torch.randn(BATCH, 8, 10)", "2.5")
    assert "device=next(self.parameters()).device" in composed([source], "sample")


@pytest.mark.parametrize(
    ("forward", "why"),
    [
        ("return x[x[:, 0, 0].long().tolist()]", "contents of tensors, at line 11: `return x"),
        ("return torch.fft.fft(x).abs()", "at line 11: `return torch.fft"),
        ("return {'result': x + 1}", "forward returns dict.*, at line 11: `return {"),
    ],
)
def test_a_refusal_names_the_line_of_the_reference(forward: str, why: str) -> None:
    with pytest.raises(Declined, match=why):
        made(forward)
