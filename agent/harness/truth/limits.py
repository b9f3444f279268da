"""Allowed errors of one output's elements, and measurement of an output against them; see `tolerance`.

Errors are computed in float64, in chunks of rows. An output clearly within the limits is recognised in a
quarter of the passes over memory, with float64 errors rounded to float32.
"""

from typing import NamedTuple

import torch

from agent.harness.truth import passes, scales

CHUNK = 1 << 22
"""Number of elements per chunk, whose intermediate results stay in a GPU's L2 cache."""
_TINY, _HUGE = 1e-30, 1e30
"""Bounds between which float32 holds a magnitude, and 1e-5 of it, at full precision."""
_ROUNDED = 1e-4
"""Maximum relative error of an error-to-limit ratio that is computed from float32 values."""
_OF_EACH = 1e-5
"""Relative error that every element may have."""
_SHORT = 1e-5
"""Value of eps that separates float32 from shorter dtypes, whose eps is larger."""
ENOUGH = 64  # minimum elements for the root mean square of an output's errors to be limited


def distances(y: torch.Tensor, r64: torch.Tensor, limits: "Limits") -> tuple[dict[str, float], bool]:
    """Return the errors and their largest ratio to a limit, and True if an element exceeds its limit.

    The ratio also covers the limit of the root mean square over all elements.
    """
    totals = _Totals()
    for begin, end in _row_chunks(y.numel(), limits.width):
        totals.add(y.reshape(-1)[begin:end], r64.reshape(-1)[begin:end], limits, begin)
    ratio = max(totals.ratio, totals.rms() / max(limits.rms, 1e-300))
    return {"max_abs_err": totals.max_abs, "max_rel_err": totals.max_rel, "ratio": ratio}, totals.ratio > 1.0


def told(y: torch.Tensor, r64: torch.Tensor, limits: "Limits") -> tuple[dict[str, float], bool] | None:
    """Return the result of `distances` in few passes over memory, or None if rounding could change it.

    Float64 errors and limits are rounded to float32. The result is None for values out of float32's range,
    values that are not finite, and ratios near 1. If a single pass suffices, `max_rel_err` is relative to the
    root mean square of the whole truth instead of a chunk's.
    """
    if not (limits.is_finite and limits.absolute > _TINY and y.numel() and limits.local is None):
        return None
    at_once = _at_once(y, r64, limits)
    if at_once is None:
        inside = _inside_in_chunks(y, r64, limits)
        return None if inside is None else (inside, False)
    result, shares = at_once
    if any(1 - _ROUNDED < share < 1 + _ROUNDED for share in shares):
        return None
    return result, shares[0] > 1


def _at_once(
    y: torch.Tensor, r64: torch.Tensor, limits: "Limits"
) -> tuple[dict[str, float], tuple[float, float]] | None:
    """Return the errors in one pass, with the ratios to an element's limit and to the root mean square's.

    Returns None if a single pass does not suffice.
    """
    if not _TINY < limits.scale < _HUGE:
        return None
    found = passes.errors_of_output(y, r64, floor=limits.absolute, share=_OF_EACH, scale=limits.scale)
    if found is None:
        return None
    square, most, largest, share, relative = found
    # No row's rms exceeds the largest magnitude. If the limits' row term could count, `distances` decides.
    if not (most < _HUGE and largest < _HUGE and 8 * limits.eps * largest <= limits.absolute):
        return None
    shares = share, (square / y.numel()) ** 0.5 / max(limits.rms, 1e-300)
    return {"max_abs_err": most, "max_rel_err": relative, "ratio": max(shares)}, shares


def _inside_in_chunks(y: torch.Tensor, r64: torch.Tensor, limits: "Limits") -> dict[str, float] | None:
    parts = [
        _part(y.reshape(-1)[begin:end], r64.reshape(-1)[begin:end], limits)
        for begin, end in _row_chunks(y.numel(), limits.width)
    ]
    # All results are read at once, because the GPU idles at each read.
    told = torch.stack([torch.stack(part) for part in parts]).cpu()
    most, largest, scale, share, relative, errors = told.unbind(1)
    nothing = (most == 0) & (largest == 0)
    if not (most.max() < _HUGE and ((scale > _TINY) | nothing).all() and largest.max() < _HUGE):
        return None
    rms = float((errors.square().sum() / y.numel()) ** 0.5)
    ratio = max(float(share.max()), rms / max(limits.rms, 1e-300))
    if not ratio <= 1 - _ROUNDED:
        return None
    worst = float(torch.where(nothing, 0.0, relative).max())
    return {"max_abs_err": float(most.max()), "max_rel_err": worst, "ratio": ratio}


def _part(y: torch.Tensor, truth: torch.Tensor, limits: "Limits") -> list[torch.Tensor]:
    """Return six measures of a chunk of whole rows.

    They are the largest error, the largest magnitude and the root mean square of the truth, the largest ratio
    of an error to its limit, the largest relative error, and the norm of the errors.
    """
    error = torch.sub(y, truth, out=torch.empty_like(truth, dtype=torch.float32))
    size = truth.float().abs_()
    most, largest = _most(error), _most(size)
    rows = torch.linalg.vector_norm(size.view(-1, limits.width), dim=1, dtype=torch.float64)
    scale = torch.linalg.vector_norm(rows) / size.numel() ** 0.5
    floor = limits.floor(rows / limits.width**0.5).float()
    shares = torch.add(floor[:, None], size.view(-1, limits.width), alpha=_OF_EACH).view(-1)
    share = _most(torch.div(error, shares, out=shares))
    relative = _most(torch.div(error, torch.clamp(size, min=scale.float(), out=size), out=size))
    return [most, largest, scale, share, relative, torch.linalg.vector_norm(error, dtype=torch.float64)]


_Sizes = tuple[float, list[tuple[float, float]]]
"""Sum of squares of the truth, and for each float32 run its largest error and errors' sum of squares."""


def _sizes(truth: torch.Tensor, runs: list[torch.Tensor]) -> _Sizes:
    truth = torch.nan_to_num(truth, posinf=0.0, neginf=0.0)
    found = []
    for y in runs:
        native = y.double()
        error = torch.where(torch.isfinite(native), native - truth, 0.0).abs()
        found.append((float(error.max()), float(error.square().sum())))
    return float(truth.square().sum()), found


class _Errors(NamedTuple):
    """Errors of an output's float32 runs: the largest error and the errors' sum of squares of each run."""

    is_finite: bool
    truth_square: float
    largest: list[float]
    squares: list[float]


def _errors(r64: torch.Tensor, runs: tuple[torch.Tensor, ...], width: int) -> _Errors:
    at_once = passes.errors_of_runs(r64, runs)
    if at_once is not None:
        return _Errors(True, at_once[0], *(list(values) for values in zip(*at_once[1], strict=True)))
    largest, squares, truth_square, is_finite = [0.0] * len(runs), [0.0] * len(runs), 0.0, True
    # Tensors are reshaped once, because reshaping a non-contiguous tensor copies all of it.
    whole, flat = r64.reshape(-1), [y.reshape(-1) for y in runs]
    pieces = [
        (whole[begin:end], [y[begin:end] for y in flat]) for begin, end in _row_chunks(r64.numel(), width)
    ]
    # All norms are read together, because the GPU idles at each read.
    norms = torch.stack([_norms(*piece) for piece in pieces]).tolist() if pieces else []
    for (truth, chunks), told in zip(pieces, norms, strict=True):
        found = _sizes_at_once(told)
        if found is None:
            is_finite = is_finite and _all_finite(truth, *chunks)
            found = _sizes(truth, chunks)
        truth_square += found[0]
        for run, (most, square) in enumerate(found[1]):
            largest[run] = max(largest[run], most)
            squares[run] += square
    return _Errors(is_finite, truth_square, largest, squares)


def _norms(truth: torch.Tensor, runs: list[torch.Tensor]) -> torch.Tensor:
    """Return the norm of the truth, then the largest error and the norm of the errors of each run."""
    norms = [torch.linalg.vector_norm(truth)]
    for y in runs:
        error = torch.sub(truth, y)
        norms += [_most(error), torch.linalg.vector_norm(error)]
    return torch.stack(norms)


def _sizes_at_once(norms: list[float]) -> _Sizes | None:
    """Return the result of `_sizes` from that of `_norms`, or None if a norm is out of float32's range."""
    norm, *told = norms
    found = list(zip(told[::2], told[1::2], strict=True))
    sizes = (norm, *(most for most, _ in found))
    if not all(size == 0 or _TINY < size < _HUGE for size in sizes):
        return None
    return norm**2, [(most, together**2) for most, together in found]


def _most(values: torch.Tensor) -> torch.Tensor:
    """Return the largest magnitude in float64, or NaN if a value is NaN, without a synchronisation."""
    most: torch.Tensor = torch.linalg.vector_norm(values, float("inf"))
    return most.double()


def _all_finite(*tensors: torch.Tensor) -> bool:
    return all(bool(torch.isfinite(t).all()) for t in tensors)


def _least(dtype: torch.dtype) -> float:
    """Return the least normal number of a dtype, or twice the least subnormal number for float16.

    GPUs do not flush float16's subnormal numbers to zero.
    """
    info = torch.finfo(dtype)
    return 2 * info.tiny * info.eps if dtype is torch.float16 else info.tiny


class Limits:
    """Tolerance of one output, derived from the errors of its float32 runs."""

    def __init__(
        self, y32: torch.Tensor, other32: torch.Tensor, sequence32: torch.Tensor, r64: torch.Tensor
    ) -> None:
        self.eps = torch.finfo(y32.dtype).eps
        self.width = next((size for size in reversed(y32.shape) if size > 1), 1)
        runs = (y32, other32) if sequence32 is other32 else (y32, other32, sequence32)
        count, errors = max(y32.numel(), 1), _errors(r64, runs, self.width)
        self.is_finite = errors.is_finite
        """True if the truth and all float32 runs are finite."""
        largest = [*errors.largest, 0.0]
        self.scale = (errors.truth_square / count) ** 0.5
        """Root mean square of the truth."""
        self.largest = max(largest[:2])
        self.native_share = self.largest / max(self.scale, 1e-300)
        self.least = _least(y32.dtype)
        """Error that every element may have, since a right kernel may flush denormals to zero."""
        self.absolute = max(16 * self.largest, largest[2], self.least)
        rms = [*((square / count) ** 0.5 for square in errors.squares), 0.0]
        self.spread = max(rms)
        # In a short dtype, most of the error is rounding of the output, which all right answers share.
        times, roundings = (8, 4) if self.eps < _SHORT else (3, 0.5)
        self.rms = (
            max(times * rms[0], times * rms[1], rms[2]) + roundings * self.eps * self.scale + self.least
        )
        if count < ENOUGH:
            self.rms = float("inf")
        self.local = scales.local(r64, runs, self.width, self.absolute)
        """Limits by row and column if these are tighter than those of the whole output, or None."""

    def of(self, truth: torch.Tensor, begin: int = 0) -> torch.Tensor:
        """Return the allowed error of each element of some rows of the truth, flat and in float64.

        `begin` is the flat index in the output at which these rows begin.
        """
        if self.local is not None:
            first = begin // self.width
            last = first + truth.numel() // self.width
            floor = self.local.floor(self.eps, self.least, first, last)
            return floor.reshape(-1) + _OF_EACH * truth.reshape(-1).abs()
        rows = truth.reshape(-1, self.width).square().mean(dim=1, keepdim=True).sqrt()
        return self.floor(rows).expand(-1, self.width).reshape(-1) + _OF_EACH * truth.abs()

    def floor(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the error that even zeros may have in rows with the root mean squares `rows`."""
        return (8 * self.eps * rows).clamp_min(self.absolute)

    def around(self, values: torch.Tensor, amplification: float) -> torch.Tensor:
        """Return the allowed error of values in which rounding is amplified by a factor."""
        return self.of(values) + (amplification - 1) * self.absolute

    def apart(self, one: torch.Tensor, other: torch.Tensor, r64: torch.Tensor) -> bool:
        """Return True if an element of `one` differs from that of `other` by more than the tolerance."""
        for begin, end in _row_chunks(one.numel(), self.width):
            given, reference = _finite_pair(one.reshape(-1)[begin:end], other.reshape(-1)[begin:end].double())
            truth = torch.nan_to_num(r64.reshape(-1)[begin:end], posinf=0.0, neginf=0.0)
            if bool(((given - reference).abs() > self.of(truth, begin)).any()):
                return True
        return False

    def exceeded(self, y: torch.Tensor, r64: torch.Tensor) -> torch.Tensor:
        """Return a mask of the elements outside the tolerance, in the shape of the output."""
        wrong = torch.zeros(y.numel(), dtype=torch.bool, device=y.device)
        for begin, end in _row_chunks(y.numel(), self.width):
            given, truth = _finite_pair(y.reshape(-1)[begin:end], r64.reshape(-1)[begin:end])
            wrong[begin:end] = (given - truth).abs() > self.of(truth, begin)
        return wrong.reshape(y.shape)


class _Totals:
    def __init__(self) -> None:
        self.max_abs = self.max_rel = self.ratio = 0.0
        self._square, self._count = 0.0, 0

    def add(self, y: torch.Tensor, r64: torch.Tensor, limits: Limits, begin: int) -> None:
        given, truth = _finite_pair(y, r64)
        error = (given - truth).abs()
        scale = truth.square().mean().sqrt().clamp_min(1e-300)
        self.max_abs = max(self.max_abs, float(error.max()))
        self.max_rel = max(self.max_rel, float((error / truth.abs().clamp_min(scale)).max()))
        allowed = limits.of(truth, begin).clamp_min(1e-300)
        self.ratio = max(self.ratio, float((error / allowed).max()))
        self._square += float(error.square().sum())
        self._count += error.numel()

    def rms(self) -> float:
        return float((self._square / max(self._count, 1)) ** 0.5)


def _finite_pair(y: torch.Tensor, r64: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return output and truth in float64, with zeros in both wherever one of them is not finite.

    The caller has compared these elements before.
    """
    given, truth = y.double(), r64
    keep = torch.isfinite(given) & torch.isfinite(truth)
    return torch.where(keep, given, 0.0), torch.where(keep, truth, 0.0)


def _row_chunks(elements: int, width: int) -> list[tuple[int, int]]:
    step = max(CHUNK // width, 1) * width
    return [(begin, min(begin + step, elements)) for begin in range(0, elements, step)]
