"""Calls of the device code: the product of two matrices, and the split of a weight."""

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.matmul_fp32x3 import product as matmul
from agent.kernels.operators import address, stream
from agent.kernels.replaying import watching

KERNEL = "linear_fp32x3"
FORWARD = "12q"
"""Struct format of `Forward` in csrc/sizes.cuh; its last two fields are the stream and the device."""
SPLIT = "6q"
PRECISIONS = {"fp32x3": 0, "ieee": 1}
"""Values of `Precision` in csrc/sizes.cuh."""
LEAST_DEPTH = 256
"""Smallest K for the tensor cores (csrc/operands_sm90.cuh). Products with a smaller K go to matmul_fp32x3 if
it is faster than torch.
"""


def number_of(precision: str) -> int:
    """Return the device code's number of a precision. Raises ValueError for an unknown precision."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision={precision!r}: there are {', '.join(PRECISIONS)}")
    return PRECISIONS[precision]


def is_torchs(x: torch.Tensor, weight: torch.Tensor, packed: torch.Tensor | None, precision: str) -> bool:
    """Return True if torch's SGEMM computes on CUDA because it is faster and may not use TF32.

    The tensor cores take the sizes at which matmul_fp32x3 uses them, from a K of `LEAST_DEPTH`. If the weight
    was split beforehand, they take any number of rows.
    """
    if routing.is_always():
        return False
    (n, k), rows = weight.shape, x.numel() // x.shape[-1]
    has_split = precision == "fp32x3" and k >= LEAST_DEPTH and matmul.has_tensor_cores(x.get_device())
    if has_split and (packed is not None or matmul.is_worth_at(1, rows, n, k)):
        return False
    watching.leave_to_python()  # a program may change the flag between calls
    return not torch.backends.cuda.matmul.allow_tf32


def is_matmuls(x: torch.Tensor, weight: torch.Tensor, packed: torch.Tensor | None, precision: str) -> bool:
    """Return True if matmul_fp32x3 computes on CUDA.

    With its fourth product it covers a K that is too small for this kernel. It also reads operands once where
    few rows meet a weight that has not been split.
    """
    if precision != "fp32x3" or packed is not None or routing.is_always():
        return False
    (n, k), rows = weight.shape, x.numel() // x.shape[-1]
    is_once = matmul.is_read_once_at(rows, n, k) and matmul.are_strips(x.reshape(-1, k), weight)
    is_shallow = k < LEAST_DEPTH and matmul.is_worth_at(1, rows, n, k)
    return (is_once or is_shallow) and matmul.has_tensor_cores(x.get_device())


def multiplied(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, packed: torch.Tensor | None,
    precision: str,
) -> torch.Tensor:  # fmt: skip
    """Return x [*, k] @ weight [n, k].T + bias [n] on CUDA; `packed` is the weight split beforehand."""
    if is_matmuls(x, weight, packed, precision):
        rows = x.reshape(-1, x.shape[-1])
        y = matmul.multiplied(rows, weight.t(), matmul.Sum(bias, 1.0, 1.0), precision)
        return y.view(*x.shape[:-1], weight.shape[0])
    if is_torchs(x, weight, packed, precision):
        return F.linear(x, weight, bias)
    x, weight = x.contiguous(), weight.contiguous()
    bias = None if bias is None else bias.contiguous()
    n, k = weight.shape
    y = x.new_empty((*x.shape[:-1], n))
    if y.numel() == 0:
        return y
    device = x.get_device()
    library = routing.library(KERNEL, device)
    pointers = (x.data_ptr(), weight.data_ptr(), address(bias), address(packed), y.data_ptr())
    values = (y.numel() // n, n, k, number_of(precision), stream(x), device)
    needed = library.ask("forward_workspace", FORWARD, *pointers, 0, *values)
    workspace = torch.empty(needed, dtype=torch.uint8, device=x.device) if needed else None
    library.launch("forward", FORWARD, *pointers, address(workspace), *values)
    return y


def split(weight: torch.Tensor) -> torch.Tensor | None:
    """Return the split form of a CUDA weight [n, k]; None on a device whose kernel does not split."""
    weight = weight.contiguous()
    device = weight.get_device()
    library = routing.library(KERNEL, device)
    values = (*weight.shape, stream(weight), device)
    needed = library.ask("packed_bytes", SPLIT, weight.data_ptr(), 0, *values)
    if not needed:
        return None
    packed = torch.empty(needed, dtype=torch.uint8, device=weight.device)
    library.launch("split", SPLIT, weight.data_ptr(), packed.data_ptr(), *values)
    return packed
