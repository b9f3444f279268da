"""Second evaluation of a reference with its sums taken in another order.

Inside `OtherOrder()`, every operator that sums is computed from sums over strips, added last to first, in the
dtype in which torch accumulates. These are reductions, losses, norms, softmax, scans, matrix products and
convolutions. Scans add one value after the other. Operators without a rule here run unchanged.

The result is as right as torch's own but rounds differently. The difference of both results measures the
effect of an order of summation. `OtherOrder(OneByOne())` gives sums of few results the error that additions
in sequence may cause (`agent.harness.truth.summation`).
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Self

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis.tape import bound
from agent.harness.truth import loss_terms, ties
from agent.harness.truth.summation import Strips, axes, running, strips, taken, total, wide

PRODUCT_STRIPS = 64
KERNEL_PARTS = 8

Arguments = dict[str, Any]


class OtherOrder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode for another order of summation. Attention is decomposed into its products and softmax."""

    def __init__(self, order: Strips | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.order = order or Strips()
        self.picks = False  # True if an operator leaves open which of equal elements it picks
        self._inside: list[ExitStack] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # With True, the first operator would import torch's compiler, which takes longer than a draw.
        return False

    def __enter__(self) -> Self:
        inside = ExitStack()
        inside.enter_context(sdpa_kernel(SDPBackend.MATH))
        inside.enter_context(taken(self.order))
        self._inside.append(inside)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._inside.pop().close()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        rule = rule_of(func, args, kwargs or {})
        self.picks = self.picks or ties.is_open(func, args, kwargs or {})
        return func(*args, **kwargs or {}) if rule is None else rule()


def rule_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Return a function that computes the call with sums in the present order, or None without a rule."""
    rule = _RULES.get(func._schema.name)
    if rule is None or "out" in kwargs:
        return None
    given = bound(func, args, kwargs)
    return partial(rule, given) if _sums_floats(given) else None


def _sums_floats(given: Arguments) -> bool:
    first = next((value for value in given.values() if isinstance(value, torch.Tensor)), None)
    return first is not None and first.is_floating_point() and first.numel() > 0 and not given.get("dtype")


def _count(x: torch.Tensor, dim: Any) -> int:
    return math.prod(x.shape[axis] for axis in axes(x, dim))


def _moments(
    x: torch.Tensor, dim: Any, correction: float, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variance and mean over `dim`."""
    centred, mean = _centred(x, dim)
    freedom = max(_count(x, dim) - correction, 0)
    spread = total(centred.square_(), dim, keepdim, freedom) / freedom
    return spread, mean.reshape(spread.shape)


def _centred(x: torch.Tensor, dim: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a new tensor of the differences from the mean over `dim`, and the mean."""
    count = _count(x, dim)
    mean = total(x, dim, True, count) / count
    return wide(x) - mean, mean


def _correction(given: Arguments) -> float:
    if "unbiased" in given:
        return float(given["unbiased"])
    return 1.0 if given.get("correction") is None else float(given["correction"])


def _sum(given: Arguments) -> torch.Tensor:
    x = given["self"]
    return total(x, given.get("dim"), given.get("keepdim", False)).to(x.dtype)


def _mean(given: Arguments) -> torch.Tensor:
    x, dim = given["self"], given.get("dim")
    count = _count(x, dim)
    return (total(x, dim, given.get("keepdim", False), count) / count).to(x.dtype)


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
        return total(wide(x).square(), given.get("dim"), keepdim).sqrt().to(x.dtype)
    largest: torch.Tensor = torch.linalg.vector_norm(x, order, given.get("dim"), keepdim)
    return largest


def _logsumexp(given: Arguments) -> torch.Tensor:
    x: torch.Tensor = given["self"]
    dim, keepdim = given["dim"], given["keepdim"]
    largest = x.amax(axes(x, dim), keepdim=True)
    largest = torch.where(largest.isfinite(), largest, 0.0)
    result = total((wide(x) - largest).exp(), dim, True).log() + largest
    return (result if keepdim else result.squeeze(axes(x, dim))).to(x.dtype)


def _softmax(given: Arguments) -> torch.Tensor:
    x: torch.Tensor = given["self"]
    dim = given["dim"]
    if x.dim() == 0:
        return torch.softmax(x, 0)
    powers = (wide(x) - x.amax(dim, keepdim=True)).exp()
    result = powers / total(powers, dim, True)
    return result if given["half_to_float"] else result.to(x.dtype)


def _log_softmax(given: Arguments) -> torch.Tensor:
    x: torch.Tensor = given["self"]
    dim = given["dim"]
    if x.dim() == 0:
        return torch.log_softmax(x, 0)
    moved = wide(x) - x.amax(dim, keepdim=True)
    result = moved - total(moved.exp(), dim, True).log()
    return result if given["half_to_float"] else result.to(x.dtype)


def _normalised(x: torch.Tensor, dim: Any, eps: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    centred, mean = _centred(x, dim)
    count = _count(x, dim)
    factor = (total(centred, dim, True, count, squared=True) / count + eps).rsqrt()
    return centred.mul_(factor), mean, factor


def _affine(y: torch.Tensor, given: Arguments, shape: Sequence[int]) -> torch.Tensor:
    """Return `y` with weight and bias applied, in place where possible."""
    weight, bias = given.get("weight"), given.get("bias")
    y = y.mul_(weight.reshape(shape)) if weight is not None else y
    y = y.add_(bias.reshape(shape)) if bias is not None else y
    return y.to(given["input"].dtype)


def _layer_norm(given: Arguments) -> tuple[torch.Tensor, ...]:
    x, shape = given["input"], given["normalized_shape"]
    y, mean, factor = _normalised(x, list(range(-len(shape), 0)), given["eps"])
    return _affine(y, given, shape), mean, factor


def _rms_norm(given: Arguments) -> tuple[torch.Tensor, torch.Tensor]:
    x, shape = given["input"], given["normalized_shape"]
    axes = list(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if given["eps"] is None else given["eps"]
    count = _count(x, axes)
    factor = (total(wide(x).square(), axes, True, count) / count + eps).rsqrt()
    return _affine(wide(x) * factor, given, shape), factor


def _group_norm(given: Arguments) -> tuple[torch.Tensor, ...]:
    x, samples, channels, groups = given["input"], given["N"], given["C"], given["group"]
    y, mean, factor = _normalised(x.reshape(samples, groups, -1), 2, given["eps"])
    per_channel = [1, channels] + [1] * (x.dim() - 2)
    stats = (mean.reshape(samples, groups), factor.reshape(samples, groups))
    return _affine(y.reshape(x.shape), given, per_channel), *stats


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b, summed over strips of the inner dimension."""
    parts = (wide(a[..., s]) @ wide(b[..., s, :]) for s in strips(a.shape[-1], PRODUCT_STRIPS))
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
    """Return the convolution as a sum over disjoint parts of the weight.

    A convolution is linear in the weight, whatever its stride, groups and direction.
    """
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
    "aten::cumsum": lambda given: running(given["self"], given["dim"]),
    "aten::cumprod": lambda given: running(given["self"], given["dim"], product=True),
    **loss_terms.RULES,
}
