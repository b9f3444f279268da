"""Comparison of large 32-bit outputs with the truth on a GPU, in one pass over memory each.

The kernels are those of `passes.cu`, which a backend has compiled (`backends/comparison_kernels.py`). `use`
loads them. If they are not loaded, and for outputs that do not suit them, `limits` and `near` use torch's
operators instead. Results are equal, except that sums are taken in another order.
"""

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

THREADS, BLOCKS = 256, 2048
VECTOR = 4
LEAST = 1 << 20
"""Minimum number of elements for these kernels; for fewer, torch's operators are fast enough."""
_ALIGNED = 16


class Kernels:
    """Comparison kernels loaded into this process's context. Raises OSError if they cannot be loaded."""

    def __init__(self, file: Path) -> None:
        torch.zeros(1, device="cuda")  # creates the CUDA context
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._call("cuModuleLoad", ctypes.byref(self._module), str(file).encode())

    def rows(self, name: str, arguments: Sequence[Any], columns: int) -> torch.Tensor:
        """Launch a kernel and return the row that each block writes.

        `arguments` excludes the final output pointer.
        """
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), self._module, name.encode())
        made = torch.empty((BLOCKS, columns), dtype=torch.float64, device="cuda")
        values = [*arguments, ctypes.c_void_p(made.data_ptr())]
        places = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.byref(value), ctypes.c_void_p) for value in values)
        )
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._call("cuLaunchKernel", function, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, places, None)
        return made

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            raise OSError(f"{name} failed with CUDA's code {code}")


_kernels: list[Kernels] = []


def use(file: Path) -> bool:
    """Load the kernels in `file`, once per process. Return True if they are loaded."""
    if _kernels:
        return True
    try:
        _kernels.append(Kernels(file))
    except (OSError, RuntimeError):
        return False
    return True


def errors_of_runs(
    truth: torch.Tensor, runs: Sequence[torch.Tensor]
) -> tuple[float, list[tuple[float, float]]] | None:
    """Return the truth's sum of squares, and for each run its largest error and its errors' sum of squares.

    Returns None if a result is not finite or the tensors do not suit these kernels.
    """
    if not _fit(truth, *runs):
        return None
    pointers = [_pointer(run) for run in runs] + [ctypes.c_void_p()] * (3 - len(runs))
    rows = _kernels[0].rows("errors_of_runs", [_pointer(truth), *pointers, _count(truth)], 7)
    told = _joined(rows, sums=4)
    if not all(map(math.isfinite, told)):
        return None
    square, *squares = told[:4]
    return square, list(zip(told[4:], squares, strict=True))[: len(runs)]


def errors_of_output(
    output: torch.Tensor, truth: torch.Tensor, *, floor: float, share: float, scale: float
) -> tuple[float, float, float, float, float] | None:
    """Return the errors of an output in five numbers.

    They are the errors' sum of squares, the largest error, the largest magnitude of the truth, the largest
    error relative to floor + share * |truth|, and the largest relative to max(|truth|, scale). Returns None
    as `errors_of_runs` does.
    """
    if not _fit(truth, output):
        return None
    given = [_pointer(truth), _pointer(output), _count(truth), *map(ctypes.c_float, (floor, share, scale))]
    square, *most = _joined(_kernels[0].rows("errors_of_output", given, 5), sums=1)
    return (square, most[0], most[1], most[2], most[3]) if math.isfinite(square) else None


def differences(found: torch.Tensor, wanted: torch.Tensor) -> tuple[float, float] | None:
    """Return the norm of `wanted` and the largest absolute difference, or None as `errors_of_runs` does."""
    if not (_kernels and _are_plain(torch.float32, found, wanted)):
        return None
    given = [_pointer(found), _pointer(wanted), _count(found)]
    square, apart, most = _joined(_kernels[0].rows("differences", given, 3), sums=2)
    return (square**0.5, most) if math.isfinite(square + apart) else None


def _fit(truth: torch.Tensor, *outputs: torch.Tensor) -> bool:
    return (
        bool(_kernels)
        and _are_plain(torch.float64, truth)
        and _are_plain(torch.float32, *outputs, like=truth)
    )


def _are_plain(dtype: torch.dtype, *tensors: torch.Tensor, like: torch.Tensor | None = None) -> bool:
    """Return True if the tensors are large, of one size, and laid out as the kernels read them."""
    count = (tensors[0] if like is None else like).numel()
    return count >= LEAST and count % VECTOR == 0 and all(
        t.is_cuda and t.dtype is dtype and t.numel() == count and t.is_contiguous()
        and t.data_ptr() % _ALIGNED == 0
        for t in tensors
    )  # fmt: skip


def _joined(rows: torch.Tensor, sums: int) -> list[float]:
    """Return the totals of all blocks' rows, read in a single copy."""
    return [float(v) for v in torch.cat([rows[:, :sums].sum(0), rows[:, sums:].amax(0)]).tolist()]


def _pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _count(tensor: torch.Tensor) -> ctypes.c_longlong:
    return ctypes.c_longlong(tensor.numel())
