"""The second summation order gives the same function, rounded differently."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from agent.harness.truth import summation
from agent.harness.truth.summation_order import OtherOrder


def drawn(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, IMAGES = drawn(6, 700), drawn(3, 8, 9, 11)
MATRIX, VECTOR = drawn(700, 5, seed=4), drawn(700, seed=5)
A = drawn(2, 33, 16)
FUNCTIONS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "sum": lambda t: X.to(t).sum(),
    "sum over two": lambda t: IMAGES.to(t).sum((1, 3), keepdim=True),
    "mean": lambda t: X.to(t).mean(-1, keepdim=True),
    "var": lambda t: X.to(t).var(1),
    "std, biased": lambda t: X.to(t).std(1, unbiased=False),
    "var_mean": lambda t: torch.cat(torch.var_mean(IMAGES.to(t), (2, 3), correction=0)),
    "norm": lambda t: torch.linalg.vector_norm(X.to(t), dim=1),
    "l1": lambda t: X.to(t).norm(p=1, dim=1),
    "largest": lambda t: torch.linalg.vector_norm(X.to(t), float("inf"), dim=1),
    "logsumexp": lambda t: torch.logsumexp(X.to(t), 1),
    "softmax": lambda t: torch.softmax(IMAGES.to(t), 1),
    "log_softmax": lambda t: torch.log_softmax(X.to(t), -1),
    "layer_norm": lambda t: F.layer_norm(IMAGES.to(t), (9, 11), drawn(9, 11).to(t), drawn(9, 11).to(t)),
    "rms_norm": lambda t: F.rms_norm(X.to(t), (700,), VECTOR.to(t), 1e-6),
    "group_norm": lambda t: F.group_norm(IMAGES.to(t), 4, drawn(8).to(t), drawn(8).to(t)),
    "instance_norm": lambda t: F.instance_norm(IMAGES.to(t)),
    "mm": lambda t: X.to(t) @ MATRIX.to(t),
    "mv": lambda t: X.to(t) @ VECTOR.to(t),
    "dot": lambda t: VECTOR.to(t) @ VECTOR.to(t),
    "addmm": lambda t: F.linear(X.to(t), MATRIX.t().to(t), drawn(5).to(t)),
    "bmm": lambda t: IMAGES[0].to(t) @ IMAGES[0].to(t).transpose(1, 2),
    "conv": lambda t: F.conv2d(IMAGES.to(t), drawn(4, 8, 3, 3).to(t), drawn(4).to(t), stride=2, padding=1),
    "grouped": lambda t: F.conv2d(IMAGES.to(t), drawn(8, 1, 3, 3).to(t), groups=8, dilation=2),
    "transposed": lambda t: F.conv_transpose2d(IMAGES.to(t), drawn(8, 2, 3, 3).to(t), groups=2),
    "attention": lambda t: F.scaled_dot_product_attention(A.to(t), A.to(t), A.to(t)),
}  # fmt: skip
UNCHANGED = {"largest", "instance_norm"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_stays_and_the_rounding_changes(name: str) -> None:
    truth, native = FUNCTIONS[name](torch.float64), FUNCTIONS[name](torch.float32)
    with OtherOrder():
        other = FUNCTIONS[name](torch.float32)
    assert other.shape == native.shape
    assert other.dtype == native.dtype
    scale = float(truth.abs().max())
    assert float((other.double() - truth).abs().max()) < 3e-6 * scale
    if name not in UNCHANGED:
        assert not torch.equal(other, native) or native.numel() == 1


def test_infinities_and_short_types_behave_as_in_torch() -> None:
    x = torch.randn(4, 6)
    x[1] = float("-inf")
    with OtherOrder():
        assert torch.logsumexp(x, 1)[1] == float("-inf")
        assert bool(torch.softmax(x, 1)[1].isnan().all())
        assert torch.ones(4096, dtype=torch.half).sum() == 4096
        assert torch.arange(5).sum() == 10
        assert torch.empty(0, 3).sum(0).tolist() == [0, 0, 0]


def test_a_long_sum_in_sequence_fits_the_second_order_better() -> None:
    x = torch.randn(4, 60_000, generator=torch.Generator().manual_seed(1)) + 1
    truth = x.double().sum(1)
    with OtherOrder():
        other = x.sum(1)
    sequential = torch.zeros(4)
    for column in x.t():
        sequential += column
    spread = float((other - truth).abs().max())
    assert float((sequential - truth).abs().max()) < 16 * spread


def test_squares_taken_strip_by_strip_sum_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(6, 5000, generator=torch.Generator().manual_seed(3))
    whole = summation.total(x, 1, squared=True)
    monkeypatch.setattr(summation, "MANY", 1)
    torch.testing.assert_close(summation.total(x, 1, squared=True), whole, rtol=1e-6, atol=0)
    torch.testing.assert_close(whole.double(), x.double().square().sum(1), rtol=1e-5, atol=0)
