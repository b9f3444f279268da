"""Diagnosis of errors from reduced precision, by the format that their size suggests.

Three properties are tested in turn. Every value of the output fits a shorter format. The output is NaN where
a cancelled variance has a root. The error has no structure, or one factor per row of either sign. The size of
such an error has to be that of a shorter format, or of a variance by E[x^2] - E[x]^2 in float32.
"""

import re
from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis import source_lines
from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch.case import Case
from agent.diagnosis.mismatch.matching import Target, fractions
from agent.diagnosis.mismatch.searching import FAILING
from agent.diagnosis.tape import Tape
from agent.diagnosis.wrong_references.products import PRECISIONS
from agent.records import Finding

Tensor = torch.Tensor
ROUGH = 0.05
"""Maximum rms error of rounding, relative to the output's rms."""
ALIKE = 6.0
"""Maximum ratio of two error sizes that count as alike."""
ORDERED = 0.5
"""Correlation of neighbouring errors, by value or by place, from which errors count as structured."""
LEAST = 64
"""Minimum number of elements for a statement about the structure of errors."""
DISTINCT = 16
"""Minimum number of different fractions that all fit a shorter format, to exclude chance.

float16 represents one in 8192 random float32 values exactly.
"""
_ROUNDING = ("round", "floor", "ceil", "trunc", "bucketize", "fake_quantize_per_tensor_affine")
_VARIANCES = ("native_layer_norm", "native_group_norm", "native_batch_norm", "var", "std", "var_mean")
_SQUARED_MEAN = re.compile(r"-\s*(\w+)(?:\[[^\]]*\])?\s*\*\s*\1\b")


def explain(case: Case, tape: Tape, target: Target) -> Finding | None:
    """Return a finding on reduced precision.

    None if the error is too large, has structure, or does not have the size of a known format's rounding.
    """
    short = _short_values(target)
    if short is not None:
        return short
    if target.y.isnan().any():
        return _rooted(case, tape) if target.truth.isfinite().all() else None
    error = target.y - target.truth
    size = float(target.truth.square().mean().sqrt())
    share = float(error.square().mean().sqrt()) / max(size, 1e-300)
    if not 0 < share <= ROUGH or target.y.numel() < LEAST:
        return None
    if _cancelled(case, tape) and _by_rows(error, target):
        return _cancellation(case, "error", f"relative error {share:.1e}")
    if not _formless(error, target) and not _by_rows(error, target):
        return None
    if any(call.name in _ROUNDING for call in tape.calls):
        # If the reference itself rounds, a value that is rounded the other way has an error of this size.
        return None
    fitting = {
        name: found for name, found in _sizes(case, target).items() if 1 / ALIKE < share / found < ALIKE
    }
    if not fitting:
        return None
    name = min(fitting, key=lambda key: max(fitting[key] / share, share / fitting[key]))
    message = (
        f"The error is spread evenly and has the size of rounding to {name} on the way (relative "
        f"{share:.1e}; that gives {fitting[name]:.1e}): reduced precision of operands or accumulators."
    )
    return Finding(kind="reduced-precision", message=message, evidence="Likely, not certain.")


def of_the_rms(case: Case, finding: Finding) -> Finding:
    """Explain errors that only exceed the limit as an rms: by the order of summation or by shorter types.

    Both explanations are tried on the output that is furthest beyond the effect of summation orders. Other
    findings stay unchanged.
    """
    if finding.kind != "precision-loss" or not case.spreads:
        return finding
    shares = [_share(case, place) for place in range(len(case.outputs))]
    place = max(range(len(shares)), key=lambda one: shares[one][0] / max(shares[one][1], 1e-300))
    (share, spread), target = shares[place], _flat(case, place)
    fitting = [name for name, size in _sizes(case, target).items() if 1 / ALIKE < share / size < ALIKE]
    cause = "neither another order of summation nor a shorter type gives errors of this size"
    if fitting and _formless(target.y - target.truth, target):
        cause = f"as with arithmetic of less precision, which {fitting[0]} on the way reproduces"
    elif share <= ALIKE * spread:
        cause = "another order of summation may give errors of this size"
    message = f"{finding.message.removesuffix('.')}: {cause}."
    return finding.model_copy(update={"message": message, "evidence": compared(case, place)})


def compared(case: Case, place: int) -> str:
    """Compare the error of an output with those of other orders of summation and of shorter types.

    The result is empty if these errors are not known or the output's error is no rounding.
    """
    share, spread = _share(case, place)
    if not 0 < share <= ROUGH or place >= len(case.spreads):
        return ""
    sizes = _sizes(case, _flat(case, place))
    given = ", ".join(f"{name} {size:.1e}" for name, size in sizes.items())
    return (
        f"Relative rms error {share:.1e}; the reference in float32 has at most {spread:.1e} in the orders of "
        f"summation tried, and with every result rounded to shorter types: {given or 'not computed'}."
    )


def _sizes(case: Case, target: Target) -> dict[str, float]:
    """Return the relative rms error of the reference with every result rounded, for each shorter format."""
    sizes = {name: _rounded(case, target, change) for name, change in PRECISIONS.items()}
    return {name: size for name, size in sizes.items() if size}


def _share(case: Case, place: int) -> tuple[float, float]:
    """Return the relative rms errors of an output and of the reference in float32."""
    truth = case.truth[place]
    if not truth.is_floating_point() or not truth.numel() or place >= len(case.spreads):
        return 0.0, 1.0
    size = max(float(truth.double().nan_to_num().square().mean().sqrt()), 1e-300)
    error = (case.outputs[place].double() - truth.double()).nan_to_num()
    return float(error.square().mean().sqrt()) / size, case.spreads[place] / size


def _flat(case: Case, place: int) -> Target:
    return Target(case.outputs[place], case.truth[place], case.limits[place])


def _short_values(target: Target) -> Finding | None:
    """Report an output whose values all fit a shorter format.

    Integers and constants fit every format, so they do not count.
    """
    if fractions(target.y) < DISTINCT or not _is_rounding(target):
        return None
    for name, change in PRECISIONS.items():
        held = target.dtype is torch.float32 and target.y.numel() >= LEAST and name != "TF32"
        if held and _holds(change, target.y) and not _holds(change, target.truth):
            message = (
                f"Every value of the output is one that {name} holds: it went through reduced precision."
            )
            return Finding(kind="reduced-precision", message=message)
    return None


def _is_rounding(target: Target) -> bool:
    error = (target.y - target.truth)[torch.isfinite(target.y) & torch.isfinite(target.truth)]
    size = float(target.truth.nan_to_num().square().mean().sqrt())
    return float(error.square().mean().sqrt()) <= ROUGH * size


def _holds(change: Callable[[Tensor], Tensor], values: Tensor) -> bool:
    return bool((change(values) == values).all())


def _cancelled(case: Case, tape: Tape) -> bool:
    """Return True if the reference has a variance and the candidate subtracts a squared mean."""
    variance = any(call.name in _VARIANCES for call in tape.calls)
    return variance and _SQUARED_MEAN.search(case.source) is not None


def _rooted(case: Case, tape: Tape) -> Finding | None:
    return _cancellation(case, "NaN", "the root of a negative variance") if _cancelled(case, tape) else None


def _cancellation(case: Case, what: str, how: str) -> Finding:
    location = source_lines.find(case.source, _SQUARED_MEAN.pattern)
    message = (
        f"The {what} ({how}) is that of a variance computed as E[x^2] - E[x]^2: catastrophic cancellation in "
        "float32. Subtract the mean first and sum the squares of the differences."
    )
    return Finding(
        kind="catastrophic-cancellation", message=message, location=location, evidence="Likely, not certain."
    )


def _formless(error: Tensor, target: Target) -> bool:
    """Return True if errors of neighbours, in memory and in the order of the right values, are unrelated."""
    by_value = error[target.truth.argsort()]
    return (
        max(abs(_related(error)), abs(_related(by_value)), abs(_correlation(error, target.truth))) < ORDERED
    )


def _by_rows(error: Tensor, target: Target) -> bool:
    """Return True if each row has an error factor of its own, of either sign."""
    width = target.shape[-1] if target.shape else 1
    if width < 8 or error.numel() // width < 8:
        return False
    rows, truth = error.reshape(-1, width), target.truth.reshape(-1, width)
    factors = (rows * truth).sum(1) / truth.square().sum(1).clamp_min(1e-300)
    left = (rows - factors[:, None] * truth).square().sum() / rows.square().sum().clamp_min(1e-300)
    return float(left) < 1 - ORDERED and abs(float(factors.mean())) < ORDERED * float(factors.std())


def _related(values: Tensor) -> float:
    return _correlation(values[1:], values[:-1])


def _correlation(one: Tensor, other: Tensor) -> float:
    a, b = one - one.mean(), other - other.mean()
    return float((a * b).sum() / (a.square().sum() * b.square().sum()).sqrt().clamp_min(1e-300))


class _Rounded(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that rounds every floating-point result."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._change = change

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **kwargs or {})
        if func.is_view or func._schema.is_mutable or not isinstance(result, Tensor):
            return result
        return self._change(result) if result.is_floating_point() else result


def _rounded(case: Case, target: Target, change: Callable[[Tensor], Tensor]) -> float:
    """Return the relative rms error of the reference with every result rounded; 0 if not computable."""
    try:
        with torch.no_grad(), _Rounded(change):
            values = tensors(case.run())
    except FAILING:
        # An index that is rounded up may lie outside its tensor.
        return 0.0
    value = next((v for v in values if v.numel() == target.truth.numel()), None)
    if value is None:
        return 0.0
    error = (value.reshape(-1).double() - target.truth).nan_to_num()
    return float(
        error.square().mean().sqrt() / target.truth.nan_to_num().square().mean().sqrt().clamp_min(1e-300)
    )
