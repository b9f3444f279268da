"""One recommendation for a right but slow candidate, from its figures."""

import pytest

from agent.diagnosis.performance import performance_advice
from agent.diagnosis.performance.counters import Counters
from agent.records import (
    KernelResources,
    KernelTime,
    Measurement,
    Operation,
    Percentiles,
    Profile,
    TensorSpec,
    Trace,
)


def _measured(ms: float, fraction: float | None) -> Measurement:
    return Measurement(
        gpu="H200", candidate_ms=Percentiles(p20=ms, p50=ms, p80=ms), eager_ms=None, compile_ms=None,
        baseline=None, roofline_fraction=fraction, method="a test",
    )  # fmt: skip


def _trace(operations: int, flops: int = 1_000_000) -> Trace:
    spec = TensorSpec(shape=(1000, 1000), dtype="float32")
    each = Operation(
        op="mul", overload="aten.mul.Tensor", inputs=(spec,), outputs=(spec,), attributes={},
        flops=flops // operations, bytes=8_000_000,
    )  # fmt: skip
    return Trace(
        operations=(each,) * operations, inputs=(spec,), init_inputs=(), outputs=(spec,), state=(),
        flops=flops, min_bytes=8_000_000,
    )  # fmt: skip


def _profile(launches: int) -> Profile:
    """So many launches, and a copy that is none."""
    kernel = KernelTime(name="plain", launches=launches, ms=0.3, own=True)
    copy = KernelTime(name="Memcpy DtoD (Device -> Device)", launches=7, ms=0.1, own=False)
    return Profile(kernels=(kernel, copy), streams=1)


PLAIN = KernelResources(name="plain", registers=32, spill_bytes=0, shared_bytes=0)
SPILLING = KernelResources(name="spilling", registers=255, spill_bytes=96, shared_bytes=0)


@pytest.mark.parametrize(
    ("ms", "operations", "flops", "kernel", "launches", "kind"),
    [
        (1.0, 1, 1_000_000, SPILLING, 1, "registers-spilled"),
        (0.02, 3, 1_000_000, PLAIN, 3, "launch-bound"),
        (1.0, 3, 1_000_000, PLAIN, 3, "not-fused"),
        (1.0, 1, 10**10, PLAIN, 1, "low-arithmetic-rate"),
        (1.0, 1, 1_000_000, PLAIN, 1, "low-bandwidth"),
        (1.0, 1, 1_000_000, PLAIN, None, "low-bandwidth"),
    ],
)
def test_the_most_promising_change_is_named(
    ms: float, operations: int, flops: int, kernel: KernelResources, launches: int | None, kind: str
) -> None:
    seen = _profile(launches) if launches is not None else None
    note = performance_advice.recommendation(_measured(ms, 0.1), _trace(operations, flops), [kernel], seen)
    assert note is not None
    assert note.kind == kind
    assert note.severity == "note"
    assert "10 % of the roofline" in note.message
    assert note.evidence is not None
    assert "GB/s" in note.evidence
    said = f"launches of one call: {launches} (plain {launches} in 0.3 ms" if launches else "not counted"
    assert said in note.evidence


@pytest.mark.parametrize("fraction", [None, 0.9])
def test_nothing_is_recommended_near_the_roofline_or_without_one(fraction: float | None) -> None:
    assert (
        performance_advice.recommendation(_measured(1.0, fraction), _trace(1), [PLAIN], _profile(1)) is None
    )


def test_counters_speak_of_what_goes_on_in_a_kernel() -> None:
    counted = [Counters("plain", {"launch__waves_per_multiprocessor": 0.25})]
    found = performance_advice.recommendation(_measured(1.0, 0.1), _trace(1), [PLAIN], _profile(1), counted)
    assert found is not None
    assert found.kind == "few-blocks"
    assert "ncu, plain: 0.25 waves" in (found.evidence or "")
    bound = performance_advice.recommendation(_measured(0.02, 0.1), _trace(3), [PLAIN], _profile(3), counted)
    assert bound is not None
    assert bound.kind == "launch-bound"
