"""Shared implementation of the operators for LayerNorm and RMSNorm over the trailing dimensions.

Both operators see x as [rows, length]. Statistics have the shape of the leading dimensions and are float32,
or float64 for float64 on the CPU. An unwanted gradient is None here, and an empty tensor among the results of
the registered operator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from agent.kernels import routing
from agent.kernels.operators import Gradients, Tensors, address, stream

FORWARD = "10qd2q"
"""`struct` format of RowForward in csrc/row_norm.cuh."""
BACKWARD = "15q"
"""`struct` format of RowBackward in csrc/row_norm.cuh."""
NOWHERE = (0, 0)
"""Null addresses of mean and rstd, for calls that do not want the statistics."""
_DENSE = torch.contiguous_format


class Parameters(NamedTuple):
    """Weight and bias of a norm, each None or of the shape of the normalised dimensions."""

    weight: torch.Tensor | None
    bias: torch.Tensor | None = None

    @property
    def dtype(self) -> torch.dtype | None:
        """Return the dtype of the parameters, or None if there are none."""
        known = self.weight if self.weight is not None else self.bias
        return None if known is None else known.dtype

    def contiguous(self) -> "Parameters":
        """Return the same parameters as contiguous tensors."""
        weight, bias = self
        if (weight is None or weight.is_contiguous()) and (bias is None or bias.is_contiguous()):
            return self
        return Parameters(*(None if value is None else value.contiguous() for value in self))

    def places(self) -> tuple[int, int]:
        """Return the addresses of weight and bias, 0 for None."""
        weight, bias = self
        return 0 if weight is None else weight.data_ptr(), 0 if bias is None else bias.data_ptr()


@dataclass(frozen=True)
class Rows:
    """Forward and backward of one kernel: on CUDA, on the CPU, and as allocation of the results alone."""

    kernel: str
    centred: bool
    """True if the mean is subtracted, so that it is one of the statistics."""

    def launch_forward(
        self, x: torch.Tensor, parameters: Parameters, dims: int, eps: float, statistics: bool
    ) -> Tensors:
        """Return the value, followed by the statistics if `statistics` is true."""
        x, parameters = x.contiguous(), parameters.contiguous()
        y = torch.empty_like(x)
        stats, places = self.statistics(x, dims) if statistics else ((), NOWHERE)
        device = x.get_device()
        routing.library(self.kernel, device).launch(
            "forward", FORWARD,
            x.data_ptr(), *parameters.places(), y.data_ptr(), *places, *matrix(x, dims),
            routing.DTYPES[x.dtype], routing.DTYPES[parameters.dtype or x.dtype], eps, stream(x), device,
        )  # fmt: skip
        return (y, *stats)

    def launch_backward(
        self,
        grad: torch.Tensor,
        x: torch.Tensor,
        parameters: Parameters,
        stats: Tensors,
        wanted: Sequence[bool],
    ) -> Gradients:
        """Return the gradients of x, weight and bias; None for unwanted gradients."""
        grad, x, parameters = grad.contiguous(), x.contiguous(), parameters.contiguous()
        grads = gradient_shapes(x, parameters, wanted)
        dims = x.dim() - stats[-1].dim()
        device = x.get_device()
        pointers = (
            grad.data_ptr(), x.data_ptr(), address(parameters.weight), *self.places(stats),
            *map(address, grads),
        )  # fmt: skip
        sizes = matrix(x, dims)
        values = (
            *sizes, routing.DTYPES[x.dtype], routing.DTYPES[parameters.dtype or x.dtype], stream(x), device
        )  # fmt: skip
        library = routing.library(self.kernel, device)
        workspace = None
        if wanted[1] or (self.centred and wanted[2]):
            needed = library.remembered(sizes, "backward_workspace", BACKWARD, *pointers, 0, *values)
            workspace = x.new_empty(needed, dtype=torch.uint8)
        library.launch("backward", BACKWARD, *pointers, address(workspace), *values)
        return grads

    def compute_forward(self, x: torch.Tensor, parameters: Parameters, dims: int, eps: float) -> Tensors:
        """Return value and statistics, computed by the formula in torch's operators."""
        over = list(range(x.dim() - dims, x.dim()))
        exact = x.double() if x.dtype == torch.float64 else x.float()
        mean = exact.mean(over, keepdim=True) if self.centred else torch.zeros_like(exact[..., :1])
        deviation = exact - mean
        rstd = (deviation.square().mean(over, keepdim=True) + eps).rsqrt()
        y = deviation * rstd
        if parameters.weight is not None:
            y = y * parameters.weight.to(y.dtype)
        if parameters.bias is not None:
            y = y + parameters.bias.to(y.dtype)
        shape = x.shape[: x.dim() - dims]
        stats = [stat.reshape(shape).contiguous() for stat in ([mean, rstd] if self.centred else [rstd])]
        return (y.to(x.dtype).contiguous(), *stats)

    def compute_backward(
        self,
        grad: torch.Tensor,
        x: torch.Tensor,
        parameters: Parameters,
        stats: Tensors,
        wanted: Sequence[bool],
    ) -> Gradients:
        """Return the gradients by the formula.

        dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = grad * weight; RMSNorm has no mean(g).
        """
        leading = stats[-1].dim()
        over = list(range(leading, x.dim()))
        wide = (*stats[-1].shape, *[1] * (x.dim() - leading))
        rstd = stats[-1].view(wide)
        exact, given = x.to(rstd.dtype), grad.to(rstd.dtype)
        normal = (exact - stats[0].view(wide)) * rstd if self.centred else exact * rstd
        scaled = given if parameters.weight is None else given * parameters.weight.to(rstd.dtype)
        inner = scaled - normal * (scaled * normal).mean(over, keepdim=True)
        if self.centred:
            inner = inner - scaled.mean(over, keepdim=True)
        rows = list(range(leading))
        made = (
            (rstd * inner),
            (given * normal).sum(rows) if rows else given * normal,
            given.sum(rows) if rows else given,
        )
        shapes = gradient_shapes(x, parameters, wanted)
        return tuple(
            None if shape is None else value.to(shape.dtype).contiguous()
            for value, shape in zip(made, shapes, strict=True)
        )

    def shapes(self, x: torch.Tensor, dims: int) -> Tensors:
        """Return uninitialised tensors for the value and the statistics."""
        return (torch.empty_like(x, memory_format=torch.contiguous_format), *self._room(x, dims))

    def statistics(self, x: torch.Tensor, dims: int) -> tuple[Tensors, tuple[int, int]]:
        """Return uninitialised tensors for the statistics, and their addresses."""
        stats = self._room(x, dims)
        return stats, self.places(stats)

    def places(self, stats: Tensors) -> tuple[int, int]:
        """Return the addresses of mean and rstd; 0 for the mean if there is none."""
        rstd = stats[-1].data_ptr()
        return (stats[0].data_ptr(), rstd) if self.centred else (0, rstd)

    def _room(self, x: torch.Tensor, dims: int) -> Tensors:
        exact = torch.float64 if x.dtype == torch.float64 else torch.float32
        rstd = x.new_empty(x.shape[: x.dim() - dims], dtype=exact)
        return (torch.empty_like(rstd), rstd) if self.centred else (rstd,)


def fits(x: torch.Tensor, shape: tuple[int, ...], *parameters: torch.Tensor | None) -> bool:
    """Return True if torch accepts these sizes and the result is not empty; otherwise torch computes."""
    # len(shape) == 0 instead of bool(), because torch.compile of torch 2.11 does not trace bool() of a tuple.
    if len(shape) == 0 or x.shape[-len(shape) :] != shape or x.numel() == 0:
        return False
    for parameter in parameters:  # noqa: SIM110  # a generator would cost more than the checks
        if parameter is not None and parameter.shape != shape:
            return False
    return True


def gradient_shapes(x: torch.Tensor, parameters: Parameters, wanted: Sequence[bool]) -> Gradients:
    """Return uninitialised gradients of x, weight and bias, or None for unwanted gradients."""
    weight, bias = parameters
    return (
        torch.empty_like(x, memory_format=_DENSE) if wanted[0] else None,
        torch.empty_like(weight, memory_format=_DENSE) if wanted[1] and weight is not None else None,
        torch.empty_like(bias, memory_format=_DENSE) if wanted[2] and bias is not None else None,
    )


def matrix(x: torch.Tensor, dims: int) -> tuple[int, int]:
    """Return the sizes of x as [rows, length], where the last `dims` dimensions are the length."""
    length = 1
    for size in x.shape[x.dim() - dims :]:
        length *= size
    return x.numel() // length, length
