"""Large outputs of 32 bits held against the truth on a GPU, each in one pass over the memory.

The kernels are those of `passes.cu`, which a backend has compiled (`backends/comparison_kernels.py`); `use`
loads them. Without them, and for every other output, the passes of `limits` and `near` decide, which say the
same: sums are taken in another order here, that is all.
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
"""Elements below which a launch or two more cost nothing."""
_ALIGNED = 16


class Kernels:
    """The compiled kernels in this process's context. Raises OSError where they cannot be loaded."""

    def __init__(self, file: Path) -> None:
        torch.zeros(1, device="cuda")  # the context is there from now on
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._call("cuModuleLoad", ctypes.byref(self._module), str(file).encode())

    def rows(self, name: str, arguments: Sequence[Any], columns: int) -> torch.Tensor:
        """What each block leaves; `arguments` without the last, which is the place for that."""
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
    """Whether the kernels in `file` are used from now on in this process."""
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
    """The sum of the squares of the truth; for each run its largest error and the sum of their squares.

    None where that is not finite, or no matter for these kernels.
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
    """The sum of the squares of the errors, the largest error, the largest magnitude of the truth, and the
    largest error as a share of `floor` plus `share` of the element, and relative to the element or `scale`.

    None as above.
    """
    if not _fit(truth, output):
        return None
    given = [_pointer(truth), _pointer(output), _count(truth), *map(ctypes.c_float, (floor, share, scale))]
    square, *most = _joined(_kernels[0].rows("errors_of_output", given, 5), sums=1)
    return (square, most[0], most[1], most[2], most[3]) if math.isfinite(square) else None


def differences(found: torch.Tensor, wanted: torch.Tensor) -> tuple[float, float] | None:
    """The norm of `wanted`, and the largest difference. None as above."""
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
    """Whether they are large, of one size, and lie as the kernels read them."""
    count = (tensors[0] if like is None else like).numel()
    return count >= LEAST and count % VECTOR == 0 and all(
        t.is_cuda and t.dtype is dtype and t.numel() == count and t.is_contiguous()
        and t.data_ptr() % _ALIGNED == 0
        for t in tensors
    )  # fmt: skip


def _joined(rows: torch.Tensor, sums: int) -> list[float]:
    """Of all blocks together, read at once."""
    return [float(v) for v in torch.cat([rows[:, :sums].sum(0), rows[:, sums:].amax(0)]).tolist()]


def _pointer(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _count(tensor: torch.Tensor) -> ctypes.c_longlong:
    return ctypes.c_longlong(tensor.numel())
