"""How far an output may be from the float64 truth, and the comparison itself.

With r64 the reference in float64, y32 the native float32 run (TF32 off), e = |y32 - r64|, every element
of a candidate's output y must satisfy

    |y - r64| <= max(F * max(e), 8 * eps * rms(r64 over its row)) + 1e-5 * |r64|

and the output as a whole rms(y - r64) <= 8 * rms(e) + 4 * eps * rms(r64), where F is 16, or 32 when an
element sums more than 4096 terms, and eps belongs to the output's dtype. 39 right answers over 22 problems,
measured on an H200, stayed within 6 e but for one atomic mean that the relative term carries; wrong
ones passed a limit by 250 times and more. Non-finite values must stand where the native run has them.
Outputs that are not floating-point must be equal.
"""

from typing import Any

import torch

from agent.diagnosis import mismatch
from agent.records import Finding

CHUNK = 1 << 25


def leaves(value: Any) -> list[torch.Tensor]:
    """The tensors of an output in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [leaf for item in items for leaf in leaves(item)]


def non_finite(value: Any) -> int:
    """How many elements of a native output are NaN or infinite."""
    return sum(int((~torch.isfinite(t)).sum()) for t in leaves(value) if t.is_floating_point())


def structure(description: dict[str, Any], native: Any) -> Finding | None:
    """What is wrong with the containers, shapes or dtypes of the described output, if anything is."""
    expected, given = _shape_of(native), _skeleton(description["tree"])
    if given != expected:
        return Finding(
            kind="wrong-structure",
            message=f"forward returned {given}; the reference returns {expected}.",
        )
    for index, (spec, want) in enumerate(zip(description["tensors"], leaves(native), strict=True)):
        which = f"output {index} " if len(description["tensors"]) > 1 else "the output "
        if tuple(spec["shape"]) != tuple(want.shape):
            return Finding(
                kind="wrong-shape",
                message=f"{which}has shape {tuple(spec['shape'])}; the reference's is {tuple(want.shape)}.",
            )
        if spec["dtype"] != str(want.dtype).removeprefix("torch."):
            return Finding(
                kind="wrong-dtype", message=f"{which}is {spec['dtype']}; the reference's is {want.dtype}."
            )
    return None


def compare(output: Any, native: Any, truth: Any, summands: int) -> dict[str, Any]:
    """Worst errors over all outputs, and the finding where the budget does not hold."""
    worst = {"max_abs_err": 0.0, "max_rel_err": 0.0, "ratio": 0.0}
    for index, (y, y32, r64) in enumerate(zip(leaves(output), leaves(native), leaves(truth), strict=True)):
        result, finding = _compare_one(y, y32, r64, summands)
        worst = {key: max(worst[key], result[key]) for key in worst}
        if finding is not None:
            if index:
                finding = finding.model_copy(update={"message": f"Output {index}: {finding.message}"})
            return worst | {"finding": finding.model_dump(mode="json")}
    return worst


def _compare_one(
    y: torch.Tensor, y32: torch.Tensor, r64: torch.Tensor, summands: int
) -> tuple[dict[str, float], Finding | None]:
    if not y32.is_floating_point():
        wrong = y != r64.to(y.dtype)
        ratio = 2.0 if bool(wrong.any()) else 0.0
        errors = (y.double() - r64.double()).abs() if wrong.numel() else torch.zeros(1)
        finding = mismatch.explain(y, r64, wrong) if ratio else None
        return {"max_abs_err": float(errors.max()), "max_rel_err": ratio, "ratio": ratio}, finding
    finding = mismatch.non_finite(y, y32)
    if finding is not None:
        return {"max_abs_err": 0.0, "max_rel_err": 0.0, "ratio": 0.0}, finding
    width = next((size for size in reversed(y.shape) if size > 1), 1)
    limits = _Limits(y32, r64, width, summands)
    totals = _Totals()
    for begin, end in _row_chunks(y.numel(), width):
        totals.add(y.reshape(-1)[begin:end], r64.reshape(-1)[begin:end], limits, width)
    rms_ratio = totals.rms() / max(limits.rms, 1e-300)
    result = {
        "max_abs_err": totals.max_abs,
        "max_rel_err": totals.max_rel,
        "ratio": max(totals.ratio, rms_ratio),
    }
    if result["ratio"] <= 1.0:
        return result, None
    outside = limits.exceeded(y, r64, width) if totals.ratio > 1.0 else None
    return result, mismatch.explain(y, r64, outside)


class _Limits:
    """The budget of one output, derived from the native error."""

    def __init__(self, y32: torch.Tensor, r64: torch.Tensor, width: int, summands: int) -> None:
        self.eps = torch.finfo(y32.dtype).eps
        largest, square, truth_square, count = 0.0, 0.0, 0.0, 0
        for begin, end in _row_chunks(y32.numel(), width):
            truth = torch.nan_to_num(r64.reshape(-1)[begin:end], posinf=0.0, neginf=0.0)
            native = y32.reshape(-1)[begin:end].double()
            error = torch.where(torch.isfinite(native), native - truth, 0.0).abs()
            largest = max(largest, float(error.max()))
            square += float(error.square().sum())
            truth_square += float(truth.square().sum())
            count += end - begin
        factor = 32 if summands > 4096 else 16
        self.absolute = factor * largest
        self.rms = 8 * (square / max(count, 1)) ** 0.5 + 4 * self.eps * (truth_square / max(count, 1)) ** 0.5

    def of(self, truth: torch.Tensor, width: int) -> torch.Tensor:
        rows = truth.reshape(-1, width).square().mean(dim=1, keepdim=True).sqrt()
        floor = (8 * self.eps * rows).expand(-1, width).reshape(-1)
        return floor.clamp_min(self.absolute) + 1e-5 * truth.abs()

    def exceeded(self, y: torch.Tensor, r64: torch.Tensor, width: int) -> torch.Tensor:
        """Which elements are outside the budget, in the shape of the output."""
        wrong = torch.zeros(y.numel(), dtype=torch.bool, device=y.device)
        for begin, end in _row_chunks(y.numel(), width):
            given, truth = _finite_pair(y.reshape(-1)[begin:end], r64.reshape(-1)[begin:end])
            wrong[begin:end] = (given - truth).abs() > self.of(truth, width)
        return wrong.reshape(y.shape)


class _Totals:
    def __init__(self) -> None:
        self.max_abs = self.max_rel = self.ratio = 0.0
        self._square, self._count = 0.0, 0

    def add(self, y: torch.Tensor, r64: torch.Tensor, limits: _Limits, width: int) -> None:
        given, truth = _finite_pair(y, r64)
        error = (given - truth).abs()
        scale = truth.square().mean().sqrt().clamp_min(1e-300)
        self.max_abs = max(self.max_abs, float(error.max()))
        self.max_rel = max(self.max_rel, float((error / truth.abs().clamp_min(scale)).max()))
        allowed = limits.of(truth, width).clamp_min(1e-300)
        self.ratio = max(self.ratio, float((error / allowed).max()))
        self._square += float(error.square().sum())
        self._count += error.numel()

    def rms(self) -> float:
        return float((self._square / max(self._count, 1)) ** 0.5)


def _finite_pair(y: torch.Tensor, r64: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in float64 with non-finite places, which were compared before, set to zero."""
    given, truth = y.double(), r64
    keep = torch.isfinite(given) & torch.isfinite(truth)
    return torch.where(keep, given, 0.0), torch.where(keep, truth, 0.0)


def _row_chunks(elements: int, width: int) -> list[tuple[int, int]]:
    step = max(CHUNK // width, 1) * width
    return [(begin, min(begin + step, elements)) for begin in range(0, elements, step)]


def _shape_of(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shape_of(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        name = "list" if isinstance(value, list) else "tuple"
        return f"{name}({', '.join(_shape_of(item) for item in value)})"
    return repr(value)


def _skeleton(tree: list[Any]) -> str:
    kind, content = tree
    if kind == "tensor":
        return "a tensor"
    if kind == "dict":
        return "{" + ", ".join(f"{key!r}: {_skeleton(item)}" for key, item in content) + "}"
    if kind in ("list", "tuple"):
        return f"{kind}({', '.join(_skeleton(item) for item in content)})"
    return repr(content)
