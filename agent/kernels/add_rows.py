"""Shared implementation of the operators for LayerNorm and RMSNorm of a sum that is also a result.

Both operators see their tensors as [rows, length], like `rows`. The norm is taken of the sum as it is stored,
that is, after rounding. The backward direction has this sum alone, and so differentiates the same function.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agent.kernels import routing
from agent.kernels.operators import Gradients, Tensors, address, stream
from agent.kernels.rows import NOWHERE, Parameters, Rows, gradient_shapes, matrix

FORWARD = "12qd2q"
"""`struct` format of AddRowForward in csrc/add_norm.cuh."""
BACKWARD = "16q"
"""`struct` format of AddRowBackward in csrc/add_norm.cuh."""


@dataclass(frozen=True)
class Grads:
    """Gradients of the two results: of the norm, and of the sum itself or None."""

    of_norm: torch.Tensor
    of_sum: torch.Tensor | None

    def contiguous(self) -> "Grads":
        """Return the same gradients as contiguous tensors."""
        return Grads(self.of_norm.contiguous(), None if self.of_sum is None else self.of_sum.contiguous())


@dataclass(frozen=True)
class AddRows:
    """Forward and backward of one kernel: on CUDA, on the CPU, and as allocation of the results alone."""

    kernel: str
    rows: Rows
    """Implementation of the same norm without the sum."""

    def launch_forward(
        self, terms: Sequence[torch.Tensor], parameters: Parameters, dims: int, eps: float, statistics: bool
    ) -> Tensors:
        """Return the norm, the sum, and the statistics if `statistics` is true."""
        x, residual = (term.contiguous() for term in terms)
        parameters = parameters.contiguous()
        y, added = torch.empty_like(x), torch.empty_like(x)
        stats, places = self.rows.statistics(x, dims) if statistics else ((), NOWHERE)
        device = x.get_device()
        routing.library(self.kernel, device).launch(
            "forward", FORWARD,
            x.data_ptr(), residual.data_ptr(), *parameters.places(), y.data_ptr(), added.data_ptr(), *places,
            *matrix(x, dims), routing.DTYPES[x.dtype], routing.DTYPES[parameters.dtype or x.dtype], eps,
            stream(x), device,
        )  # fmt: skip
        return (y, added, *stats)

    def launch_backward(
        self,
        grads: Grads,
        added: torch.Tensor,
        parameters: Parameters,
        stats: Tensors,
        wanted: Sequence[bool],
    ) -> Gradients:
        """Return the gradients of each summand, of the weight and of the bias; None if unwanted."""
        grads, added, parameters = grads.contiguous(), added.contiguous(), parameters.contiguous()
        made = gradient_shapes(added, parameters, wanted)
        device = added.get_device()
        pointers = (
            grads.of_norm.data_ptr(), address(grads.of_sum), added.data_ptr(), address(parameters.weight),
            *self.rows.places(stats), *map(address, made),
        )  # fmt: skip
        sizes = matrix(added, added.dim() - stats[-1].dim())
        values = (
            *sizes, routing.DTYPES[added.dtype], routing.DTYPES[parameters.dtype or added.dtype],
            stream(added), device,
        )  # fmt: skip
        library = routing.library(self.kernel, device)
        workspace = None
        if wanted[1] or (self.rows.centred and wanted[2]):
            needed = library.remembered(sizes, "backward_workspace", BACKWARD, *pointers, 0, *values)
            workspace = added.new_empty(needed, dtype=torch.uint8)
        library.launch("backward", BACKWARD, *pointers, address(workspace), *values)
        return made

    def compute_forward(
        self, terms: Sequence[torch.Tensor], parameters: Parameters, dims: int, eps: float
    ) -> Tensors:
        """Return norm, sum and statistics, computed by the formula in torch's operators."""
        added = (terms[0] + terms[1]).contiguous()
        y, *stats = self.rows.compute_forward(added, parameters, dims, eps)
        return (y, added, *stats)

    def compute_backward(
        self,
        grads: Grads,
        added: torch.Tensor,
        parameters: Parameters,
        stats: Tensors,
        wanted: Sequence[bool],
    ) -> Gradients:
        """Return the norm's gradients by the formula, with the sum's own gradient added to that of x."""
        dx, *others = self.rows.compute_backward(grads.of_norm, added, parameters, stats, wanted)
        return (dx if dx is None or grads.of_sum is None else dx + grads.of_sum, *others)

    def shapes(self, x: torch.Tensor, dims: int) -> Tensors:
        """Return uninitialised tensors for the norm, the sum and the statistics."""
        y, *stats = self.rows.shapes(x, dims)
        return (y, torch.empty_like(y), *stats)


def takes(kernel: str, x: torch.Tensor, residual: torch.Tensor, *parameters: torch.Tensor | None) -> bool:
    """Return True if the kernel computes this call; otherwise record why torch has to."""
    same = residual.shape == x.shape and residual.dtype == x.dtype and residual.device == x.device
    if not same and not routing.is_disabled():
        routing.fall_back(kernel, "the residual has another shape, dtype or device than the input")
    return same and routing.takes(kernel, x, *parameters)
