"""A reference evaluated once more with its sums taken in another order.

Contract: inside `OtherOrder()` every operator that sums (reductions, norms, softmax, matrix products,
convolutions) is computed from sums over strips, added up last to first, in the dtype that torch accumulates
in; everything else runs as it is. The result is as right as torch's own and rounds differently: the spread
of the two is what a summation order is worth. Operators without a rule keep torch's order.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis.tape import bound

STRIPS = 256
"""Partial sums of a reduction, added one after the other: the order of a block for each strip."""
PRODUCT_STRIPS = 64
KERNEL_PARTS = 8

Arguments = dict[str, Any]


class OtherOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode; attention is taken apart into its products and its softmax."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise the first operator imports torch's compiler, which takes longer than a whole draw.
        return False

    def __enter__(self) -> Any:
        self._attention = sdpa_kernel(SDPBackend.MATH)
        self._attention.__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._attention.__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = _RULES.get(func._schema.name)
        if rule is not None and "out" not in (kwargs or {}):
            given = bound(func, args, kwargs or {})
            if _sums_floats(given):
                return rule(given)
        return func(*args, **kwargs or {})


def _sums_floats(given: Arguments) -> bool:
    first = next((value for value in given.values() if isinstance(value, torch.Tensor)), None)
    return first is not None and first.is_floating_point() and first.numel() > 0 and not given.get("dtype")


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.element_size() < 4 else x


def _strips(size: int, most: int) -> Iterator[slice]:
    step = max(1, math.ceil(size / most))
    for begin in reversed(range(0, size, step)):
        yield slice(begin, begin + step)


def _axes(x: torch.Tensor, dim: Any) -> list[int]:
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(x.dim()))
    return [axis % max(x.dim(), 1) for axis in (dim if isinstance(dim, (list, tuple)) else [dim])]


def total(x: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    """The sum over `dim` (None: all) in strips, in float32 for shorter dtypes."""
    axes = _axes(x, dim)
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    flat = x.movedim(axes, list(range(-len(axes), 0))).flatten(-len(axes)) if axes else x.unsqueeze(-1)
    parts = (_wide(flat[..., strip]).sum(-1) for strip in _strips(flat.shape[-1], STRIPS))
    result = next(parts)
    for part in parts:
        result = result + part
    return result.reshape(shape) if keepdim else result


def _count(x: torch.Tensor, dim: Any) -> int:
    return math.prod(x.shape[axis] for axis in _axes(x, dim))


def _moments(
    x: torch.Tensor, dim: Any, correction: float, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Variance and mean."""
    count = _count(x, dim)
    mean = total(x, dim, True) / count
    spread = total((_wide(x) - mean).square(), dim, keepdim) / max(count - correction, 0)
    return spread, mean.reshape(spread.shape)


def _correction(given: Arguments) -> float:
    if "unbiased" in given:
        return float(given["unbiased"])
    return 1.0 if given.get("correction") is None else float(given["correction"])


def _sum(given: Arguments) -> torch.Tensor:
    x = given["self"]
    return total(x, given.get("dim"), given.get("keepdim", False)).to(x.dtype)


def _mean(given: Arguments) -> torch.Tensor:
    x = given["self"]
    return (total(x, given.get("dim"), given.get("keepdim", False)) / _count(x, given.get("dim"))).to(x.dtype)


def _var_mean(given: Arguments) -> tuple[torch.Tensor, torch.Tensor]:
    x = given["self"]
    spread, mean = _moments(x, given.get("dim"), _correction(given), given.get("keepdim", False))
    return spread.to(x.dtype), mean.to(x.dtype)


def _std_mean(given: Arguments) -> tuple[torch.Tensor, torch.Tensor]:
    spread, mean = _var_mean(given)
    return spread.sqrt(), mean


def _norm(given: Arguments) -> torch.Tensor:
    x, order, keepdim = given["self"], given.get("ord", 2), given.get("keepdim", False)
    if order == 1:
        return total(x.abs(), given.get("dim"), keepdim).to(x.dtype)
    if order == 2:
        return total(_wide(x).square(), given.get("dim"), keepdim).sqrt().to(x.dtype)
    largest: torch.Tensor = torch.linalg.vector_norm(x, order, given.get("dim"), keepdim)
    return largest


def _logsumexp(given: Arguments) -> torch.Tensor:
    x: torch.Tensor = given["self"]
    dim, keepdim = given["dim"], given["keepdim"]
    largest = x.amax(_axes(x, dim), keepdim=True)
    largest = torch.where(largest.isfinite(), largest, 0.0)
    result = total((_wide(x) - largest).exp(), dim, True).log() + largest
    return (result if keepdim else result.squeeze(_axes(x, dim))).to(x.dtype)


def _softmax(given: Arguments) -> torch.Tensor:
    x: torch.Tensor = given["self"]
    dim = given["dim"]
    if x.dim() == 0:
        return torch.softmax(x, 0)
    powers = (_wide(x) - x.amax(dim, keepdim=True)).exp()
    result = powers / total(powers, dim, True)
    return result if given["half_to_float"] else result.to(x.dtype)


def _log_softmax(given: Arguments) -> torch.Tensor:
    x: torch.Tensor = given["self"]
    dim = given["dim"]
    if x.dim() == 0:
        return torch.log_softmax(x, 0)
    moved = _wide(x) - x.amax(dim, keepdim=True)
    result = moved - total(moved.exp(), dim, True).log()
    return result if given["half_to_float"] else result.to(x.dtype)


def _normalised(x: torch.Tensor, dim: Any, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    spread, mean = _moments(x, dim, 0.0, True)
    factor = (spread + eps).rsqrt()
    return (_wide(x) - mean) * factor, mean, factor


def _affine(y: torch.Tensor, given: Arguments, shape: Sequence[int]) -> torch.Tensor:
    weight, bias = given.get("weight"), given.get("bias")
    y = y * weight.reshape(shape) if weight is not None else y
    y = y + bias.reshape(shape) if bias is not None else y
    return y.to(given["input"].dtype)


def _layer_norm(given: Arguments) -> tuple[torch.Tensor, ...]:
    x, shape = given["input"], given["normalized_shape"]
    y, mean, factor = _normalised(x, list(range(-len(shape), 0)), given["eps"])
    return _affine(y, given, shape), mean, factor


def _rms_norm(given: Arguments) -> tuple[torch.Tensor, torch.Tensor]:
    x, shape = given["input"], given["normalized_shape"]
    axes = list(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if given["eps"] is None else given["eps"]
    factor = (total(_wide(x).square(), axes, True) / _count(x, axes) + eps).rsqrt()
    return _affine(_wide(x) * factor, given, shape), factor


def _group_norm(given: Arguments) -> tuple[torch.Tensor, ...]:
    x, samples, channels, groups = given["input"], given["N"], given["C"], given["group"]
    y, mean, factor = _normalised(x.reshape(samples, groups, -1), 2, given["eps"])
    per_channel = [1, channels] + [1] * (x.dim() - 2)
    stats = (mean.reshape(samples, groups), factor.reshape(samples, groups))
    return _affine(y.reshape(x.shape), given, per_channel), *stats


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b with the inner dimension in strips."""
    parts = (_wide(a[..., s]) @ _wide(b[..., s, :]) for s in _strips(a.shape[-1], PRODUCT_STRIPS))
    result = next(parts, None)
    if result is None:
        return a @ b
    for part in parts:
        result = result + part
    return result.to(a.dtype)


def _added_product(given: Arguments) -> torch.Tensor:
    a, b = (given[name] for name in (("mat1", "mat2") if "mat1" in given else ("batch1", "batch2")))
    result: torch.Tensor = given["beta"] * given["self"] + given["alpha"] * _product(a, b)
    return result


def _matrix_vector(given: Arguments) -> torch.Tensor:
    return _product(given["self"], given["vec"].unsqueeze(-1)).squeeze(-1)


def _convolution(given: Arguments) -> torch.Tensor:
    """Linear in the weight: the sum over disjoint parts of the weight, whatever stride, groups, direction."""
    weight, bias = given["weight"], given["bias"]
    part = torch.arange(weight[0].numel(), device=weight.device).reshape(weight.shape[1:]) % KERNEL_PARTS
    layout = [given[name] for name in ("stride", "padding", "dilation", "transposed", "output_padding")]
    result = None
    for number in reversed(range(min(KERNEL_PARTS, part.numel()))):
        masked = torch.where(part == number, weight, 0.0)
        term = torch.ops.aten.convolution(given["input"], masked, None, *layout, given["groups"])
        result = term if result is None else result + term
    assert result is not None
    if bias is None:
        return torch.as_tensor(result)
    shifted: torch.Tensor = result + bias.reshape(-1, *[1] * (weight.dim() - 2))
    return shifted


_RULES: dict[str, Callable[[Arguments], Any]] = {
    "aten::sum": _sum,
    "aten::mean": _mean,
    "aten::var": lambda given: _var_mean(given)[0],
    "aten::std": lambda given: _std_mean(given)[0],
    "aten::var_mean": _var_mean,
    "aten::std_mean": _std_mean,
    "aten::linalg_vector_norm": _norm,
    "aten::logsumexp": _logsumexp,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _log_softmax,
    "aten::native_layer_norm": _layer_norm,
    "aten::_fused_rms_norm": _rms_norm,
    "aten::native_group_norm": _group_norm,
    "aten::mm": lambda given: _product(given["self"], given["mat2"]),
    "aten::bmm": lambda given: _product(given["self"], given["mat2"]),
    "aten::mv": _matrix_vector,
    "aten::dot": lambda given: total(given["self"] * given["tensor"], None),
    "aten::addmm": _added_product,
    "aten::baddbmm": _added_product,
    "aten::convolution": _convolution,
}
