"""Tolerance of an output around the float64 ground truth, and the comparison itself.

Let r64 be the reference in float64, and e the larger error of its two float32 runs (TF32 off). One run is
torch's own, the other sums in another order (`agent.harness.truth.summation_order`). Every element of a
candidate's output y must satisfy

    |y - r64| <= max(16 * max(e), 8 * eps * rms(r64 over its row)) + 1e-5 * |r64|

An output of 64 elements or more must also satisfy, as a whole,

    rms(y - r64) <= 8 * rms(e) + 4 * eps * rms(r64)

Here eps is that of the output's dtype. For a dtype shorter than float32, the factors are 3 and 0.5 instead of
8 and 4. Rows and columns of small values may have tighter limits (`scales`).

If the reference has sums of few results, a third float32 run adds to these sums the error that float atomics
may cause. Neither limit is below that run's error (`agent.harness.truth.summation.OneByOne`; measured as
docs/integrity-protocol.md explains). If the relative error of a sum in sequence exceeds 1e-3, float atomics
are not a right way to compute it. The third run is then ignored on stated inputs, and other families are left
out.

39 right answers over 22 problems on an H200 stayed within 6 times the error of the float32 runs. One atomic
mean did not, but was within the relative term. Wrong answers exceeded a limit by a factor of 250 or more.
Values that are not finite must be where torch's own run has them. Outputs that are not floating-point must be
equal.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from agent.diagnosis.mismatch import mismatch_description
from agent.harness.truth import output_structure
from agent.harness.truth.limits import CHUNK, Limits, distances, told
from agent.harness.truth.steps import Room
from agent.harness.truth.summation import USELESS
from agent.harness.worker import memory_guards
from agent.records import Finding

Allowance = Callable[[torch.Tensor, float], torch.Tensor]
leaves = memory_guards.leaves
UNSTABLE = 1e-3
"""Maximum relative error of the float32 reference on a family of inputs, above which the draw is left out."""
FAR = 0.1
"""Share of the truth's root mean square above which an error cannot come from rounding."""
ROUNDINGS = 16
"""Maximum relative error in place of UNSTABLE for an output of a short dtype, as a multiple of its eps.

In a short dtype, rounding alone causes errors of this size.
"""


def non_finite(value: Any) -> int:
    """Return the number of elements of a native output that are NaN or infinite."""
    return sum(int((~torch.isfinite(t)).sum()) for t in leaves(value) if t.is_floating_point())


class Sequence(NamedTuple):
    """Results of the reference in which sums of few results have the error of additions in sequence."""

    outputs: Any
    lost: float  # largest error of a sum relative to the total magnitude of its terms


class Expected:
    """Expected output of one draw: the structure of the native output, the truth and its limits."""

    def __init__(
        self,
        native: Any,
        other: Any,
        truth: Any,
        sequence: Sequence | None = None,
        rooms: list[Room | None] | None = None,
    ) -> None:
        """Derive the limits from the reference's runs.

        `native` and `other` are the two float32 runs, and `truth` is the float64 run. `rooms` holds, for each
        output, further right results of rounding and choice.
        """
        self.native, self.truth = native, truth
        self._rooms = rooms
        native, other = self._settled(native), self._settled(other)
        if sequence is not None:
            sequence = sequence._replace(outputs=self._settled(sequence.outputs))
        self._finite_as = leaves(native)
        """Outputs whose finite elements have to be finite in a right output."""
        self.open_choice = False  # True if a choice among equal elements is open and changes the outputs
        self.is_undefined = False  # True if a number was converted to an integer that cannot hold it
        self._lost = sequence.lost if sequence is not None else 0.0
        # If sums in sequence are too inaccurate to be right, their error is not allowed.
        allowed = sequence.outputs if sequence is not None and self._lost <= USELESS else other
        runs = zip(leaves(native), leaves(other), leaves(allowed), leaves(truth), strict=True)
        self.limits = [Limits(*run) if run[0].is_floating_point() else None for run in runs]
        self._equal = all(
            limit is not None or (torch.equal(y32, other32) and torch.equal(y32, r64.to(y32.dtype)))
            for limit, y32, other32, r64 in zip(
                self.limits, leaves(native), leaves(other), leaves(truth), strict=True
            )
        )

    def _settled(self, output: Any) -> Any:
        """Return the output with the truth wherever another right rounding or choice explains its value."""
        if self._rooms is None or not any(self._rooms):
            return output
        rooms, truths = iter(self._rooms), iter(leaves(self.truth))

        def settle(y: torch.Tensor) -> torch.Tensor:
            room, r64 = next(rooms), next(truths)
            return y if room is None or y.shape != r64.shape else room.settled(y, r64)

        return tree_map_only(torch.Tensor, settle, output)

    def lean(self) -> None:
        """Release the native run's values, which are not needed if they and the truth are finite.

        Shapes and dtypes of the native run stay.
        """
        if all(limits is not None and limits.is_finite for limits in self.limits):
            self.native = tree_map_only(torch.Tensor, _without_numbers, self.native)
            self._finite_as = leaves(self.truth)

    @property
    def native_error(self) -> float:
        """Largest error of the two float32 runs over all outputs."""
        return max((limit.largest for limit in self.limits if limit), default=0.0)

    @property
    def native_share(self) -> float:
        """Largest error of the float32 runs relative to an output's root mean square, over all outputs."""
        return max((limit.native_share for limit in self.limits if limit), default=0.0)

    def around(self) -> "list[Allowance | None]":
        """Return a function for each output that gives the allowed error around values other than the truth.

        None stands for an output that must be equal.
        """
        return [None if limits is None else limits.around for limits in self.limits]

    def spreads(self) -> list[float]:
        """Return each output's largest rms error of the float32 runs, or 0 for one that must be equal."""
        return [limit.spread if limit is not None else 0.0 for limit in self.limits]

    def obstacle(self) -> str | None:
        """Return the reason why this draw cannot tell right from wrong, or None.

        Only draws of families may be left out for it, not those of stated inputs.
        """
        if not all(limit and limit.is_finite for limit in self.limits) and non_finite(self.native):
            return "the float32 reference is not finite"
        if self.is_undefined:
            return "the reference converts a number to an integer that cannot hold it"
        if not self._equal:
            return "the reference's own runs differ in an output that must be equal"
        if self.open_choice:
            return "which of equal elements is picked is open, and it changes the output"
        if self._lost > USELESS:
            return f"a sum in another order loses {self._lost:.1g} of its terms' size"
        if any(limit.native_share > max(UNSTABLE, ROUNDINGS * limit.eps) for limit in self.limits if limit):
            return f"the float32 reference itself is off by {self.native_share:.1g} of the output's size"
        return None

    def structure(self, description: dict[str, Any]) -> Finding | None:
        """Return a finding if containers, shapes or dtypes of the described output are wrong."""
        return output_structure.fault(description, self.native)

    def compare(self, output: Any) -> dict[str, Any]:
        """Return the largest errors over all outputs, and a finding if the tolerance is exceeded."""
        worst, output = {"max_abs_err": 0.0, "max_rel_err": 0.0, "ratio": 0.0}, self._settled(output)
        quadruples = zip(leaves(output), self._finite_as, leaves(self.truth), self.limits, strict=True)
        for index, (y, y32, r64, limits) in enumerate(quadruples):
            result, finding = _compare_one(y, y32, r64, limits)
            worst = {key: max(worst[key], result[key]) for key in worst}
            if finding is not None:
                if index:
                    finding = finding.model_copy(update={"message": f"Output {index}: {finding.message}"})
                return worst | {"finding": finding.model_dump(mode="json")}
        return worst

    def wrong(self, output: Any) -> tuple[int, torch.Tensor] | None:
        """Return the index of the first wrong output and a mask of its wrong elements, or None.

        Elements are wrong outside the tolerance, or if they should be finite and are not, or conversely.
        """
        output = self._settled(output)
        quadruples = zip(leaves(output), self._finite_as, leaves(self.truth), self.limits, strict=True)
        for index, (y, y32, r64, limits) in enumerate(quadruples):
            if limits is None:
                wrong = y != r64.to(y.dtype)
            else:
                finite = torch.isfinite(y) & torch.isfinite(y32)
                same = (y == y32) | (torch.isnan(y) & torch.isnan(y32))
                wrong = limits.exceeded(y, r64) | ~(finite | same)
            if bool(wrong.any()):
                return index, wrong
        return None

    def accepts(self, outputs: list[torch.Tensor]) -> bool:
        """Return True if `compare` would return no finding, without the work of describing errors."""
        outputs = self._settled(outputs)
        quadruples = zip(outputs, self._finite_as, leaves(self.truth), self.limits, strict=True)
        return all(_fits(*quadruple) for quadruple in quadruples)

    def is_far(self, outputs: list[torch.Tensor]) -> bool:
        """Return True if an error exceeds FAR times the truth's root mean square, or is not finite."""
        return any(
            limits is not None and limits.is_finite and not _largest(y, r64) <= FAR * limits.scale
            for y, r64, limits in zip(outputs, leaves(self.truth), self.limits, strict=True)
        )

    def differs(self, one: Any, other: Any) -> bool:
        """Return True if two outputs differ by more than the tolerance."""
        one, other = self._settled(one), self._settled(other)
        quadruples = zip(leaves(one), leaves(other), leaves(self.truth), self.limits, strict=True)
        return any(
            not torch.equal(a, b) and (limits is None or limits.apart(a, b, r64))
            for a, b, r64, limits in quadruples
        )


def _largest(y: torch.Tensor, r64: torch.Tensor) -> float:
    """Return the largest error of an output, or NaN if a value is NaN."""
    flat, truth = y.reshape(-1), r64.reshape(-1)
    if not flat.numel():
        return 0.0
    pieces = zip(torch.split(flat, CHUNK), torch.split(truth, CHUNK), strict=True)
    return float(torch.stack([torch.linalg.vector_norm(a - b, float("inf")) for a, b in pieces]).max())


def _without_numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the shape and dtype of `tensor` that takes no memory."""
    return torch.zeros((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)


def _compare_one(
    y: torch.Tensor, y32: torch.Tensor, r64: torch.Tensor, limits: Limits | None
) -> tuple[dict[str, float], Finding | None]:
    if limits is None:
        wrong = y != r64.to(y.dtype)
        ratio = 2.0 if bool(wrong.any()) else 0.0
        errors = (y.double() - r64.double()).abs() if wrong.numel() else torch.zeros(1)
        finding = mismatch_description.explain(y, r64, wrong) if ratio else None
        return {"max_abs_err": float(errors.max()), "max_rel_err": ratio, "ratio": ratio}, finding
    found = _errors(y, y32, r64, limits)
    if isinstance(found, Finding):
        return {"max_abs_err": 0.0, "max_rel_err": 0.0, "ratio": 0.0}, found
    result, too_far = found
    if result["ratio"] <= 1.0:
        return result, None
    return result, mismatch_description.explain(y, r64, limits.exceeded(y, r64) if too_far else None)


def _fits(y: torch.Tensor, y32: torch.Tensor, r64: torch.Tensor, limits: Limits | None) -> bool:
    if limits is None:
        return torch.equal(y, r64.to(y.dtype))
    if limits.is_finite and y.numel() and not torch.linalg.vector_norm(y, float("inf")).isfinite():
        return False
    found = _errors(y, y32, r64, limits)
    return not isinstance(found, Finding) and found[0]["ratio"] <= 1.0


def _errors(
    y: torch.Tensor, y32: torch.Tensor, r64: torch.Tensor, limits: Limits
) -> tuple[dict[str, float], bool] | Finding:
    """Return the errors as `distances` does.

    Returns a finding if values are not finite elsewhere than in the native run.
    """
    return told(y, r64, limits) or mismatch_description.non_finite(y, y32) or distances(y, r64, limits)
