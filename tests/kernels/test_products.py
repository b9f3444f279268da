"""Products and convolutions: which sizes are taken, what a gradient is a convolution of, what is refused."""

from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from agent.kernels import conv_fp32x3, conv_transpose_fp32x3, matmul_fp32x3, sources
from agent.kernels.conv_fp32x3 import operator as convolutions
from agent.kernels.conv_fp32x3 import product as products_of_convolutions
from agent.kernels.conv_fp32x3.product import shape_of
from agent.kernels.conv_fp32x3.window import Window
from agent.kernels.conv_fp32x3.worth import is_worth_at
from agent.kernels.matmul_fp32x3 import operator as products
from agent.kernels.matmul_fp32x3 import product
from agent.kernels.matmul_half import operator as halves

F = torch.nn.functional


def worth(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return product.is_worth(torch.empty(a, device="meta"), torch.empty(b, device="meta"))


@pytest.fixture
def on_sm90(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "has_tensor_cores", lambda device: True)


@pytest.mark.usefixtures("on_sm90")
@pytest.mark.parametrize(
    ("a", "b", "taken"),
    [
        ((4096, 4096), (4096, 4096), True),
        ((1536, 1536), (1536, 1536), True),
        ((16, 1024, 2048), (2048, 768), True),
        ((128, 512, 1024), (128, 1024, 2048), True),
        ((256, 4096), (4096, 4096), True),
        ((1024, 1024), (1024, 1024), True),
        ((1024, 960), (960, 1024), True),  # in one launch
        ((4096, 128), (128, 4096), True),
        ((32768, 64), (64, 32768), True),
        ((256, 512, 64), (256, 64, 512), True),
        ((768, 768), (768, 768), False),  # too few products
        ((128, 4096), (4096, 4096), True),  # read once
        ((256, 524288), (524288, 256), True),
        ((512, 16384), (16384, 512), True),
        ((512, 4096), (4096, 512), True),
        ((512, 512), (512, 512), False),  # too few products
        ((4, 4096), (4096, 4096), False),  # too few for a tile
        ((128, 4098), (4098, 4097), False),  # rows that are no 16 bytes each
        ((32768, 16), (16, 32768), False),
        ((512, 128, 128), (512, 128, 128), False),
    ],
)
def test_the_tensor_cores_are_taken_where_they_were_faster(
    a: tuple[int, ...], b: tuple[int, ...], taken: bool
) -> None:
    assert worth(a, b) is taken


@pytest.mark.usefixtures("on_sm90")
def test_tiles_that_are_mostly_empty_are_left_to_torch() -> None:
    assert worth((256, 4095), (4095, 4095))
    assert not worth((140, 4095), (4095, 4095))


def test_other_gpus_leave_products_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "has_tensor_cores", lambda device: False)
    assert not worth((4096, 4096), (4096, 4096))


def test_a_product_that_is_left_to_torch_stays_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where torch may use TF32, the kernel's own float32 arithmetic computes."""
    asked: list[str] = []

    def multiplied(
        a: torch.Tensor, b: torch.Tensor, added: product.Sum, precision: str, parts: product.Parts
    ) -> torch.Tensor:
        asked.append(precision)
        return a @ b

    monkeypatch.setattr(product, "multiplied", multiplied)
    monkeypatch.setattr(product, "is_worth", lambda a, b: False)
    a, b, plain = torch.randn(3, 5), torch.randn(5, 4), product.Sum(None, 1.0, 1.0)
    torch.testing.assert_close(products._on_gpu(a, b, plain, "fp32x3", product.WHOLE), a @ b)
    assert asked == []
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        products._on_gpu(a, b, plain, "fp32x3", product.WHOLE)
        products._on_gpu(a, b, plain, "fp32x4", product.WHOLE)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert asked == ["ieee", "fp32x4"]


WINDOWS = {
    "strided": ((2, 4, 9, 10), (6, 4, 3, 3), Window((2, 3), (1, 0), (1, 2), False, (0, 0))),
    "in groups": ((2, 4, 8), (6, 2, 3), Window((2,), (2,), (1,), False, (0,), 2)),
    "transposed": ((2, 4, 5, 6), (4, 3, 3, 2), Window((2, 1), (1, 0), (1, 2), True, (1, 0))),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_the_gradient_of_the_input_is_a_convolution(name: str) -> None:
    x_shape, weight_shape, window = WINDOWS[name]
    x, weight = (
        torch.randn(x_shape, dtype=torch.float64, requires_grad=True),
        torch.randn(weight_shape).double(),
    )
    y = torch.convolution(x, weight, None, *window)
    assert shape_of(x, weight, window) == tuple(y.shape)
    grad = torch.randn_like(y)
    (wanted,) = torch.autograd.grad(y, x, grad)
    back = convolutions.reverse(window, x, weight, grad)
    torch.testing.assert_close(torch.convolution(grad, weight, None, *back), wanted)


class Extension:
    """In the place of the one that conv_fp32x3's file builds."""

    @staticmethod
    def conv_fp32x3(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, y: torch.Tensor,
        window: list[int], groups: int,
    ) -> None:  # fmt: skip
        assert y.stride(0) == y.shape[1] * y.stride(1)
        stride, padding, dilation = window[:3], window[3:6], window[6:]
        for i, step in enumerate(dilation):
            if step < 0:  # backwards: the flipped weight, from where its last tap is
                weight = weight.flip(2 + i)
                padding[i] -= (weight.shape[2 + i] - 1) * step
                dilation[i] = -step
        pads = [pad for i in (2, 1, 0) for pad in (padding[i], 200)]
        whole = F.conv3d(F.pad(x, pads), weight, bias, stride, 0, dilation, groups)
        y[:] = whole[:, :, : y.shape[2], : y.shape[3], : y.shape[4]]


@pytest.mark.parametrize(
    ("x", "weight", "window"),
    [
        ((2, 4, 9, 10), (6, 4, 3, 3), Window((2, 3), (1, 0), (1, 2))),
        ((2, 4, 8), (6, 2, 3), Window((2,), (2,), (1,), groups=2)),
        ((1, 3, 4, 5, 6), (2, 3, 3, 1, 2), Window((1, 2, 1), (1, 0, 0), (1, 1, 2))),
        ((2, 4, 5, 6), (4, 3, 3, 2), Window((2, 1), (1, 0), (1, 2), True, (1, 0))),
        ((2, 4, 5), (4, 3, 3), Window((5,), (1,), (2,), True, (1,), 2)),
        ((1, 4, 3, 4, 2), (4, 2, 3, 2, 3), Window((2, 1, 3), (1, 1, 0), (2, 1, 1), True, (1, 0, 0))),
    ],
    ids=str,
)
def test_the_files_convolutions_are_torchs(
    x: tuple[int, ...], weight: tuple[int, ...], window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpp_extension, "load_inline", lambda **options: Extension)
    named: dict[str, Any] = {}
    exec(sources.candidate("conv_fp32x3"), named)
    a, w, ways = torch.randn(x), torch.randn(weight), window[:3]
    bias = torch.randn(weight[1] * window.groups if window.transposed else weight[0])
    if window.transposed:
        y = named["conv_transpose_fp32x3"](a, w, bias, ways, window.output_padding, window.groups)
    else:
        y = named["conv_fp32x3"](a, w, bias, ways, window.groups)
        window = window._replace(output_padding=(0,) * len(window.stride))
    torch.testing.assert_close(y, torch.convolution(a, w, bias, *window))


PLAIN = Window((1, 1), (1, 1), (1, 1), False, (0, 0))
SPREAD = Window((2, 2), (1, 1), (1, 1), True, (0, 0))
SPREAD_3D = Window((2,) * 3, (1,) * 3, (2,) * 3, True, (0,) * 3)


@pytest.mark.parametrize(
    ("x", "weight", "window", "taken"),
    [
        ((32, 64, 56, 56), (64, 64, 3, 3), PLAIN, True),
        ((4, 1280, 16, 16), (1280, 1280, 3, 3), PLAIN, True),
        ((16, 32, 16, 32, 32), (32, 64, 3, 3, 3), SPREAD_3D, True),
        ((128, 64, 128, 128), (64, 64, 3, 3), SPREAD, True),
        ((8, 64, 1024, 1024), (64, 64, 3, 3), PLAIN._replace(transposed=True), True),
        ((128, 64, 256, 256), (64, 64, 3, 3), PLAIN._replace(transposed=True), False),
        ((128, 8, 384, 384), (64, 8, 3, 3), PLAIN, False),  # too slow for so little depth
        ((1, 1280, 16, 16), (1280, 1280, 3, 3), PLAIN, True),  # few tiles, whose stages are shared out
        ((64, 64, 27, 27), (192, 64, 5, 5), PLAIN._replace(padding=(2, 2)), False),  # cuDNN transforms it
        ((1, 64, 56, 56), (64, 64, 3, 3), PLAIN, False),
        ((16, 64, 224, 224), (8, 64, 3, 3), PLAIN, False),  # too few features
        ((16, 3, 224, 224), (64, 3, 3, 3), PLAIN, False),  # too little depth
        ((32, 128, 56, 56), (128, 4, 3, 3), PLAIN._replace(groups=32), False),
        ((64, 512, 8, 8), (512, 256, 4, 4), SPREAD, True),
        ((8, 512, 32, 32), (512, 256, 2, 2), SPREAD._replace(padding=(0, 0)), False),  # four small ones
    ],
)
def test_convolutions_are_taken_where_they_were_faster(
    x: tuple[int, ...], weight: tuple[int, ...], window: Window, taken: bool
) -> None:
    assert is_worth_at(x, weight, window) is taken


def test_a_convolution_that_is_left_to_torch_has_torchs_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products_of_convolutions, "has_tensor_cores", lambda device: False)
    x, weight, bias = torch.randn(2, 3, 6, 7), torch.randn(4, 3, 3, 3), torch.randn(4)
    found = convolutions._on_gpu(x, weight, bias, PLAIN, "fp32x3")
    torch.testing.assert_close(found, F.conv2d(x, weight, bias, padding=1))


@pytest.mark.parametrize("added", [None, (9,), (5, 1), (5, 9), (1, 9), ()], ids=str)
def test_zeros_change_no_product_of_halves(added: tuple[int, ...] | None) -> None:
    a, b = (torch.randint(-3, 4, size).bfloat16() for size in ((3, 5, 7), (7, 9)))
    c = None if added is None else torch.randint(-3, 4, added).bfloat16()
    wanted = 0.5 * (a.float() @ b.float()) + (0 if c is None else 2.0 * c.float())
    assert torch.equal(halves.with_zeros(a, b, product.Sum(c, 0.5, 2.0)).float(), wanted)


@pytest.mark.parametrize(
    ("size", "worth"),
    [
        ((1, 8205, 5921, 2949), True),
        ((1, 8205, 5920, 2952), False),  # rows begin at 16 bytes
        ((1, 511, 511, 511), False),  # copies would take longer
    ],
)
def test_large_products_of_odd_rows_get_zeros(size: tuple[int, int, int, int], worth: bool) -> None:
    assert halves.is_worth_zeros(*size) is worth


def test_a_precision_that_is_none() -> None:
    x = torch.randn(3, 3)
    with pytest.raises(ValueError, match="precision='tf32': there are fp32x3, ieee, fp32x4, bf16x6"):
        matmul_fp32x3(x, x, precision="tf32")
    with pytest.raises(ValueError, match="b_is='left': there are whole, lower, upper"):
        matmul_fp32x3(x, x, b_is="left")
    with pytest.raises(ValueError, match="precision='tf32': there are fp32x3, ieee"):
        conv_fp32x3(x[None], x[None], precision="tf32")


@pytest.mark.usefixtures("taken")
def test_wrong_arguments_are_torchs_to_refuse() -> None:
    with pytest.raises(RuntimeError):
        matmul_fp32x3(torch.randn(3, 5), torch.randn(4, 5))
    with pytest.raises(RuntimeError):
        matmul_fp32x3(torch.randn(2, 3, 5), torch.randn(3, 5, 4))
    with pytest.raises(RuntimeError):
        conv_fp32x3(torch.randn(2, 3, 8), torch.randn(4, 2, 3))
    with pytest.raises(RuntimeError):
        conv_transpose_fp32x3(torch.randn(2, 3, 8), torch.randn(3, 2, 3), output_padding=2)


@pytest.mark.usefixtures("taken")
def test_nothing_to_compute_and_vectors() -> None:
    a, b = torch.randn(3, 5), torch.randn(5)
    torch.testing.assert_close(matmul_fp32x3(a, b), a @ b)
    assert matmul_fp32x3(torch.randn(0, 5), torch.randn(5, 4)).shape == (0, 4)
    torch.testing.assert_close(matmul_fp32x3(torch.randn(2, 0), torch.randn(0, 3)), torch.zeros(2, 3))
    wide = torch.full((3, 4), float("nan"))
    torch.testing.assert_close(matmul_fp32x3(a, a.mT, wide[:, :3], beta=0.0), a @ a.mT)
    assert conv_fp32x3(torch.randn(0, 3, 8), torch.randn(4, 3, 3)).shape == (0, 4, 6)
