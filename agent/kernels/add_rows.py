"""LayerNorm and RMSNorm of a sum that is a result too: what their operators share.

Both see their tensors as [rows, length], as `rows` does. The norm is that of the sum as it is stored, so that
the backward direction, which has the sum alone, is that of the same function.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from agent.kernels import routing
from agent.kernels.operators import Gradients, Tensors, address, stream
from agent.kernels.rows import NOWHERE, Parameters, Rows, gradient_shapes, matrix

FORWARD = "12qd2q"
"""AddRowForward of csrc/add_norm.cuh."""
BACKWARD = "16q"
"""AddRowBackward."""


@dataclass(frozen=True)
class Grads:
    """Of the two values: the norm's, and the sum's own, or None."""

    of_norm: torch.Tensor
    of_sum: torch.Tensor | None

    def contiguous(self) -> "Grads":
        """The same values, one after the other."""
        return Grads(self.of_norm.contiguous(), None if self.of_sum is None else self.of_sum.contiguous())


@dataclass(frozen=True)
class AddRows:
    """The two directions of one of the kernels, on CUDA, on the CPU and as shapes alone."""

    kernel: str
    rows: Rows
    """Of the norm alone."""

    def launch_forward(
        self, terms: Sequence[torch.Tensor], parameters: Parameters, dims: int, eps: float, statistics: bool
    ) -> Tensors:
        """The norm and the sum, then the statistics, of which there are none where they are not wanted."""
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
        """Gradients of either summand, weight and bias."""
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
        """The formula."""
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
        """The norm's, to which the sum's own is added."""
        dx, *others = self.rows.compute_backward(grads.of_norm, added, parameters, stats, wanted)
        return (dx if dx is None or grads.of_sum is None else dx + grads.of_sum, *others)

    def shapes(self, x: torch.Tensor, dims: int) -> Tensors:
        """Room for the norm, the sum and the statistics."""
        y, *stats = self.rows.shapes(x, dims)
        return (y, torch.empty_like(y), *stats)


def takes(kernel: str, x: torch.Tensor, residual: torch.Tensor, *parameters: torch.Tensor | None) -> bool:
    """Whether the kernel computes this call; if not, that is noted, and torch has to."""
    same = residual.shape == x.shape and residual.dtype == x.dtype and residual.device == x.device
    if not same and not routing.is_disabled():
        routing.fall_back(kernel, "the residual has another shape, dtype or device than the input")
    return same and routing.takes(kernel, x, *parameters)
