"""Calls of the device code: convolutions in 1, 2 and 3 dimensions, transposed and grouped ones included.

A transposed convolution is computed as convolutions whose taps run backwards over the input. With a stride
there is one convolution for each remainder of the output position modulo the stride. Each writes its own
pixels.
"""

from itertools import product
from math import gcd
from typing import NamedTuple

import torch

from agent.kernels import routing
from agent.kernels.conv_fp32x3.window import Ints, Window, shape_at
from agent.kernels.conv_fp32x3.worth import is_worth_at
from agent.kernels.linear_fp32x3.product import number_of
from agent.kernels.matmul_fp32x3.product import has_tensor_cores
from agent.kernels.operators import address, stream

KERNEL = "conv_fp32x3"
FORWARD = "34q"
"""Struct format of `Forward` in csrc/sizes.cuh; its last two fields are the stream and the device."""


class _Part(NamedTuple):
    """One dimension of a convolution that writes `out` pixels of the result from `begin` on.

    A negative dilation runs the taps backwards, which saves a flipped copy of the weight.
    """

    taps: range
    padding: int
    dilation: int
    out: int
    begin: int


def shape_of(x: torch.Tensor, weight: torch.Tensor, window: Window) -> Ints:
    """Return the shape of the result, [images, features, ...]."""
    return shape_at(x.shape, weight.shape, window)


def is_worth(x: torch.Tensor, weight: torch.Tensor, window: Window) -> bool:
    """Return True if the tensor cores were measured to be faster than torch's convolution at these shapes."""
    return has_tensor_cores(x.get_device()) and is_worth_at(tuple(x.shape), tuple(weight.shape), window)


def convolved(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, window: Window, precision: str
) -> torch.Tensor:
    """Return torch.convolution(x, weight, bias, *window) on CUDA."""
    x = x.contiguous()
    bias = None if bias is None else bias.contiguous()
    y = x.new_empty(shape_of(x, weight, window))
    if y.numel() == 0:
        return y
    if not window.transposed:
        ways = zip(weight.shape[2:], window.padding, window.dilation, y.shape[2:], strict=True)
        whole = [_Part(range(size), pad, step, out, 0) for size, pad, step, out in ways]
        _launch((x, weight.contiguous(), bias, y), whole, window, (1,) * len(whole), precision)
        return y
    groups, (_, features, *size) = window.groups, weight.shape
    turned = weight.view(groups, -1, features, *size).transpose(1, 2).reshape(groups * features, -1, *size)
    one = window._replace(stride=(1,) * len(size))
    for parts in product(*_parts(weight.shape[2:], y.shape[2:], window)):
        if not all(part.taps for part in parts):
            _fill(y, parts, window.stride, bias)
            continue
        chosen = turned[(slice(None), slice(None), *(slice(*_slice(part.taps)) for part in parts))]
        _launch((x, chosen.contiguous(), bias, y), list(parts), one, window.stride, precision)
    return y


def _fill(y: torch.Tensor, parts: tuple[_Part, ...], spread: Ints, bias: torch.Tensor | None) -> None:
    """Write the bias, or 0, to the pixels that no tap reaches."""
    places = (slice(part.begin, None, by) for part, by in zip(parts, spread, strict=True))
    y[(slice(None), slice(None), *places)] = 0.0 if bias is None else bias.view(-1, *(1,) * len(parts))


def _slice(taps: range) -> tuple[int, int, int]:
    return taps.start, taps.stop, taps.step


def _parts(sizes: Ints, outs: Ints, window: Window) -> list[list[_Part]]:
    """Return the convolutions that make up a transposed convolution, for each dimension.

    Output position o reads input (o + padding - tap * dilation) / stride where that is an integer. All
    positions o = begin + stride * q share the same taps, and the input position moves with q.
    """
    found = []
    for size, out, stride, pad, step in zip(sizes, outs, *window[:3], strict=True):
        common = gcd(stride, step)
        parts = []
        for begin in range(min(stride, out)):
            first = next((tap for tap in range(size) if (begin + pad - tap * step) % stride == 0), size)
            taps = range(first, size, stride // common)
            # The first tap reads the largest input position.
            largest = (begin + pad - first * step) // stride if taps else 0
            count = (out - begin + stride - 1) // stride
            parts.append(_Part(taps, -largest, -step // common, count, begin))
        found.append(parts)
    return found


def _launch(
    tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor],
    parts: list[_Part], window: Window, spread: Ints, precision: str,
) -> None:  # fmt: skip
    """Launch one convolution. Its pixels of y begin at the `begin` of each of `parts`, and lie `spread`
    apart.
    """
    x, weight, bias, y = tensors
    device = y.get_device()
    library = routing.library(KERNEL, device)
    steps = y.stride()[2:]
    offset = sum(part.begin * step for part, step in zip(parts, steps, strict=True))
    pointers = (x.data_ptr(), weight.data_ptr(), address(bias), y.data_ptr() + offset * y.element_size())
    sizes = (x.shape[0], window.groups, weight.shape[1], weight.shape[0] // window.groups)
    values = (
        *sizes, *_three(x.shape[2:]), *_three([part.out for part in parts]), y.stride(1),
        *_three([step * by for step, by in zip(steps, spread, strict=True)]), *_three(weight.shape[2:]),
        *_three(window.stride), *_three([part.padding for part in parts], 0),
        *_three([part.dilation for part in parts]), number_of(precision), stream(y), device,
    )  # fmt: skip
    needed = library.ask("forward_workspace", FORWARD, *pointers, 0, *values)
    workspace = torch.empty(needed, dtype=torch.uint8, device=y.device)
    library.launch("forward", FORWARD, *pointers, workspace.data_ptr(), *values)


def _three(values: "Ints | list[int] | torch.Size", missing: int = 1) -> Ints:
    """Return the values for three dimensions, with `missing` for the dimensions in front."""
    return (missing,) * (3 - len(values)) + tuple(values)
