"""Torch operators that a replay may run, and their lowering to plain copies and fills.

`--library-ops` has three settings. Under all of them tensors may be created, filled with a constant, copied,
cast and given a new layout. `gemm-conv` adds matrix products and convolutions; `any` adds all operators
except random ones.
"""

import math
import struct
from typing import Any

from agent.emulator.replay.events import Operator, extent, itemsize
from agent.records import LibraryOps

Step = list[Any]

LAYOUT = frozenset(
    (
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "zeros",
        "zeros_like", "new_zeros", "zero", "zero_", "ones", "ones_like", "new_ones", "full", "full_like",
        "new_full", "fill", "fill_", "arange", "eye", "scalar_tensor", "copy", "copy_", "clone",
        "contiguous", "_to_copy", "cat", "stack", "constant_pad_nd", "repeat", "lift_fresh_copy",
        "expand_copy", "permute_copy", "view_copy", "slice_copy", "t_copy", "transpose_copy",
        "unsqueeze_copy", "squeeze_copy", "_reshape_copy",
    )
)  # fmt: skip
GEMM_CONV = frozenset(
    (
        "mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_", "addbmm", "addbmm_", "mv", "addmv", "addmv_",
        "dot", "vdot", "matmul", "linear", "convolution", "_convolution", "conv1d", "conv2d", "conv3d",
        "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "mkldnn_convolution", "mkldnn_linear",
        "_slow_conv2d_forward", "slow_conv3d_forward", "_conv_depthwise2d", "thnn_conv2d",
    )
)  # fmt: skip
_RANDOM = (
    "rand", "normal", "uniform", "bernoulli", "multinomial", "dropout", "native_dropout", "exponential",
    "cauchy", "log_normal", "geometric", "poisson", "rrelu_with_noise", "_standard_gamma",
    "_sample_dirichlet", "binomial",
)  # fmt: skip
_NOTHING = frozenset(name for name in LAYOUT if "empty" in name)
_ZEROS = frozenset(("zeros", "zeros_like", "new_zeros", "zero_"))
_ONES = frozenset(("ones", "ones_like", "new_ones"))
_COPIES = frozenset(("clone", "contiguous", "_to_copy", "lift_fresh_copy"))
_TAKEN = {"copy_": 2} | dict.fromkeys(_COPIES, 1)
"""Minimum number of arguments of each operator that copies a tensor."""
_FORMATS = {"float32": "<f", "float64": "<d", "int32": "<i", "int64": "<q"}


def allowed(name: str, setting: LibraryOps) -> bool:
    """Return True if the operator may help to compute an output from the inputs."""
    if name in LAYOUT or (setting != "none" and name in GEMM_CONV):
        return True
    return setting == "any" and not random(name)


def random(name: str) -> bool:
    return name.lstrip("_").startswith(_RANDOM)


def lowered(event: Operator) -> list[Step] | None:
    """Return the operator as replay steps that need no torch, or None if the operator needs torch."""
    name = event.name
    if name in _NOTHING:
        return []
    targets = event.arguments if name.endswith("_") else event.results
    if not targets or len(event.arguments) < _TAKEN.get(name, 0):
        return None
    target = targets[0]
    value = _filled(event)
    if value is not None:
        return _fill(target, value)
    if name == "copy_" or name in _COPIES:
        source = event.arguments[1 if name == "copy_" else 0]
        return _copy(target, source)
    return None


def tensors(value: Any) -> list[dict[str, Any]]:
    """Return the descriptions of all tensors within an operator's argument."""
    if isinstance(value, list):
        return [found for item in value for found in tensors(item)]
    if isinstance(value, dict):
        if "tensor" in value or "literal" in value or "other" in value:
            return [value]
        return [found for item in value.values() for found in tensors(item)]
    return []


def dtype(description: dict[str, Any]) -> str:
    """Return the name of a described tensor's dtype, such as `float32`."""
    return str(description["tensor"][1] if "tensor" in description else description.get("dtype"))


def span(description: dict[str, Any]) -> range:
    """Return the address range of a described tensor in device memory."""
    address, dtype, shape, strides = description["tensor"]
    return range(address, address + extent(shape, strides, itemsize(dtype)))


def _filled(event: Operator) -> Any:
    name, arguments = event.name, event.arguments
    if name in _ZEROS:
        return 0
    if name in _ONES:
        return 1
    if name in ("full", "full_like", "new_full", "fill_"):
        given = arguments[-1] if len(arguments) > 1 else None
        return given if isinstance(given, (bool, int, float)) else None
    return None


def _fill(target: Any, value: Any) -> list[Step] | None:
    if not isinstance(target, dict) or "tensor" not in target or not _dense(target):
        return None
    dtype, place = target["tensor"][1], span(target)
    if value == 0 and math.copysign(1, value) > 0:
        return [["fill", place.start, "00", len(place)]]
    if dtype not in _FORMATS:
        return None
    try:
        kind = float if dtype.startswith("float") else int
        pattern = struct.pack(_FORMATS[dtype], kind(value))
    except (struct.error, OverflowError, ValueError):
        return None
    return [["fill", place.start, pattern.hex(), len(place)]]


def _copy(target: Any, source: Any) -> list[Step] | None:
    """Return a byte-copy step if both tensors have the same dtype, shape and dense layout, or else None."""
    if not (isinstance(target, dict) and isinstance(source, dict) and "tensor" in target and _dense(target)):
        return None
    address, dtype, shape, strides = target["tensor"]
    if "tensor" in source and source["tensor"][1:] == [dtype, shape, strides]:
        return [["move", address, source["tensor"][0], len(span(target))]]
    if (
        source.get("literal")
        and source["dtype"] == dtype
        and source["shape"] == shape
        and _rows(shape, strides)
    ):
        return [["bytes", address, source["literal"]]]
    return None


def _dense(description: dict[str, Any]) -> bool:
    _, dtype, shape, _ = description["tensor"]
    return bool(len(span(description)) == math.prod(shape) * itemsize(dtype))


def _rows(shape: list[int], strides: list[int]) -> bool:
    rows = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return all(n == 1 or step == row for n, step, row in zip(shape, strides, rows, strict=True))
