"""The window of a convolution and the output sizes that follow from it."""

from typing import NamedTuple

Ints = tuple[int, ...]


class Window(NamedTuple):
    """Arguments of torch.convolution, with one number per dimension."""

    stride: Ints
    padding: Ints
    dilation: Ints
    transposed: bool = False
    output_padding: Ints = ()
    groups: int = 1


def shape_at(x: Ints, weight: Ints, window: Window) -> Ints:
    """Return the result's shape [images, features, ...] for an input and a weight of these shapes."""
    sizes = tuple(
        (size - 1) * stride - 2 * pad + step * (kernel - 1) + more + 1
        if window.transposed
        else (size + 2 * pad - step * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, pad, step, more in zip(
            x[2:], weight[2:], *window[:3], window.output_padding or window.stride, strict=True
        )
    )
    return (x[0], weight[1] * window.groups if window.transposed else weight[0], *sizes)
