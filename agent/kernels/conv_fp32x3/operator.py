"""Torch's convolutions with float32 accuracy: operator `kernelwright::conv_fp32x3_forward`.

The same kernel computes the gradient of x: it is a transposed convolution for a forward one, and a forward
one for a transposed one. The weight's gradient is computed by torch.
"""

from collections.abc import Sequence
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.conv_fp32x3 import product
from agent.kernels.conv_fp32x3.window import Ints, Window
from agent.kernels.linear_fp32x3.product import number_of
from agent.kernels.operators import Direction, Gradient, Operator, Tensors

KERNEL = product.KERNEL
FORWARD = product.FORWARD
DTYPES = (torch.float32,)
ENVELOPE = (
    "1, 2 and 3 dimensions, forward and transposed, any stride, padding, dilation and groups",
    "kernels whose sizes add up to at most 31, below 2^31 values of an image and pixels of a result;"
    " copied where not contiguous",
    "float32 alone, under autocast too",
    "fp32x3: three fp16 products on the tensor cores of sm_90, sums in float32, at shapes where that was"
    " measured to be faster; elsewhere torch's float32 convolution, with TF32 off",
    "ieee: float32 arithmetic on every GPU",
    "the weight's gradient by torch's operators, with torch's setting of TF32",
)
_MOST_TAPS, _MOST = 31, 1 << 31
_Parameter = torch.Tensor | None
Sizes = int | Sequence[int]


def conv_fp32x3(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter = None, stride: Sizes = 1, padding: Sizes = 0,
    dilation: Sizes = 1, groups: int = 1, *, precision: str = "fp32x3",
) -> torch.Tensor:  # fmt: skip
    """Return conv1d, conv2d or conv3d of x [n, channels, ...] with TF32 off, by the rank of the weight.

    precision is fp32x3 (the tensor cores of sm_90 where they were measured to be faster, otherwise torch's
    convolution with TF32 off) or ieee (the kernel's float32 arithmetic). Falls back to torch and records why
    if the kernel does not support the call. Raises ValueError for another precision, and whatever torch
    raises.
    """
    number_of(precision)
    each = [_each(value, weight.dim() - 2) for value in (stride, padding, dilation, 0)]
    return _by_window(x, weight, bias, Window(each[0], each[1], each[2], False, each[3], groups), precision)


def conv_transpose_fp32x3(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1, *, precision: str = "fp32x3",
) -> torch.Tensor:  # fmt: skip
    """Return conv_transpose1d, 2d or 3d with TF32 off. `conv_fp32x3` describes precision, fallback and
    errors.
    """
    number_of(precision)
    each = [_each(value, weight.dim() - 2) for value in (stride, padding, dilation, output_padding)]
    return _by_window(x, weight, bias, Window(each[0], each[1], each[2], True, each[3], groups), precision)


def _each(value: Sizes, dimensions: int) -> Ints:
    return (value,) * dimensions if isinstance(value, int) else tuple(value)


def _by_window(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, window: Window, precision: str
) -> torch.Tensor:
    x, weight = routing.widened(x), routing.widened(weight)
    bias = None if bias is None else routing.widened(bias)
    # Invalid and empty calls go to torch, which gives the error or the empty result.
    if not _is_right(x, weight, bias, window) or not _takes(x, weight, bias, window):
        return _by_torch(x, weight, bias, window)
    return _OPERATOR(x, weight, bias, *(list(sizes) for sizes in window[:3]), window.transposed,
                     list(window.output_padding), window.groups, precision)  # fmt: skip


def _is_right(x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, window: Window) -> bool:
    """Return True if torch accepts these arguments and the result is not empty."""
    space, groups = weight.dim() - 2, window.groups
    sizes = (window.stride, window.padding, window.dilation, window.output_padding)
    if space not in (1, 2, 3) or x.dim() != weight.dim() or any(len(each) != space for each in sizes):
        return False
    if groups < 1 or not x.numel() or not weight.numel() or min(*window.stride, *window.dilation) < 1:
        return False
    channels = weight.shape[0] if window.transposed else weight.shape[1] * groups
    features = weight.shape[1] * groups if window.transposed else weight.shape[0]
    if x.shape[1] != channels or channels % groups or features % groups or min(window.padding) < 0:
        return False
    most = [max(pair) for pair in zip(window.stride, window.dilation, strict=True)]
    if any(not 0 <= more < limit for more, limit in zip(window.output_padding, most, strict=True)):
        return False
    return (bias is None or bias.shape == (features,)) and min(product.shape_of(x, weight, window)[2:]) > 0


def _takes(x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, window: Window) -> bool:
    if routing.is_disabled():
        return False
    pixels = 1
    for size in product.shape_of(x, weight, window)[2:]:
        pixels *= size
    if sum(weight.shape[2:]) + 3 - len(weight.shape[2:]) > _MOST_TAPS:
        routing.fall_back(KERNEL, f"the kernel's sizes add up to over {_MOST_TAPS}")
    elif x[0].numel() >= _MOST or pixels * max(x.shape[0], weight.shape[0], weight.shape[1]) >= _MOST:
        routing.fall_back(KERNEL, "there are more pixels or values of an image than it counts")
    else:
        return routing.takes(KERNEL, x, weight, bias, dtypes=DTYPES)
    return False


def _by_torch(x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, window: Window) -> torch.Tensor:
    return torch.convolution(x, weight, bias, *window)


def _launch(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, precision: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    window = Window(tuple(stride), tuple(padding), tuple(dilation), transposed, tuple(output_padding), groups)
    return (_on_gpu(x, weight, bias, window, precision),)


def _on_gpu(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, window: Window, precision: str
) -> torch.Tensor:
    if precision == "ieee" or product.is_worth(x, weight, window):
        return product.convolved(x, weight, bias, window, precision)
    cudnn = torch.backends.cudnn
    flags = {"enabled": cudnn.enabled, "benchmark": cudnn.benchmark, "deterministic": cudnn.deterministic}
    with cudnn.flags(**flags, allow_tf32=False):
        return _by_torch(x, weight, bias, window).contiguous()


def _compute(
    x: torch.Tensor, weight: torch.Tensor, bias: _Parameter, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, precision: str, statistics: bool = True,
) -> Tensors:  # fmt: skip
    window = Window(stride, padding, dilation, transposed, output_padding, groups)
    return (_by_torch(x, weight, bias, window).contiguous(),)


def _shapes(
    x: torch.Tensor, weight: torch.Tensor, bias: Any, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, precision: str,
) -> Tensors:  # fmt: skip
    window = Window(stride, padding, dilation, transposed, output_padding, groups)
    return (x.new_empty(product.shape_of(x, weight, window)),)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, precision: str, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    window = Window(tuple(stride), tuple(padding), tuple(dilation), transposed, tuple(output_padding), groups)
    dx, dweight, dbias = _of_torch(grad, x, weight, window, [False, *wanted[1:]])
    if wanted[0]:
        dx = _on_gpu(grad, weight, None, reverse(window, x, weight, grad), precision)
    return dx, dweight, dbias


def reverse(window: Window, x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> Window:
    """Return the window of the gradient of x: transposed for a forward convolution and vice versa."""
    if window.transposed:
        return window._replace(transposed=False, output_padding=(0,) * len(window.stride))
    back = window._replace(transposed=True, output_padding=(0,) * len(window.stride))
    least = product.shape_of(grad, weight, back)[2:]
    more = tuple(size - small for size, small in zip(x.shape[2:], least, strict=True))
    return back._replace(output_padding=more)


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, precision: str, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    return _of_torch(
        grad, x, weight, Window(stride, padding, dilation, transposed, output_padding, groups), wanted
    )


def _of_torch(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, window: Window, wanted: Sequence[bool]
) -> Tensors:
    """Return torch's gradients of x, weight and bias; an unwanted gradient is empty."""
    features = grad.shape[1]
    made = torch.ops.aten.convolution_backward(grad, x, weight, [features], *window, list(wanted))
    return tuple(
        value.contiguous() if want else x.new_empty(0) for value, want in zip(made, wanted, strict=True)
    )


def _backward_shapes(
    grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, stride: Ints, padding: Ints, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int, precision: str, wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    shapes = (x.shape, weight.shape, (grad.shape[1],))
    return tuple(x.new_empty(shape if want else 0) for shape, want in zip(shapes, wanted, strict=True))


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return inputs[:2]


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    wanted = list(needed[:3])
    made = _OPERATOR.backward(grad, *saved, *settings[3:], wanted)
    return (*(value if want else None for value, want in zip(made, wanted, strict=True)), *(None,) * 7)


_WINDOW = (
    "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding,"
    " SymInt groups, str precision"
)
_OPERATOR = Operator(
    KERNEL,
    Direction(
        f"(Tensor x, Tensor weight, Tensor? bias, {_WINDOW}) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        f"(Tensor grad, Tensor x, Tensor weight, {_WINDOW}, bool[] wanted) -> (Tensor, Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
