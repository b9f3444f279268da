"""Recommendation of the first change to a correct but slow candidate, with the figures behind it.

The figures are those that the judge has anyway: times, the reference's traffic and arithmetic, launches and
ptxas statistics. NVIDIA's counters, if available, take precedence on what happens inside a kernel.
"""

from collections.abc import Iterator, Sequence

from agent.diagnosis.performance import counters
from agent.diagnosis.performance.counters import Counters
from agent.records import Finding, KernelResources, Measurement, Profile, Trace

NEAR = 0.7
"""Fraction of the roofline from which no advice is given."""
LAUNCH_MS = 0.004
"""Approximate cost in ms of one launch among consecutive launches, on GPUs of the last ten years."""
RIDGE = 14.0
"""FLOP per byte above which arithmetic bounds an H200: 67 TFLOP/s FP32 over 4.8 TB/s."""
MOST_REGISTERS = 128
"""Registers per thread above which only one block of 512 threads fits into 65,536 registers."""
OPERATORS = 6
KERNELS = 4
NAME = 60
CERTAIN = ("registers-spilled", "launch-bound")
"""Kinds of advice on which the counters cannot improve."""


def recommendation(
    measured: Measurement,
    trace: Trace,
    kernels: Sequence[KernelResources],
    seen: Profile | None,
    counted: Sequence[Counters] = (),
) -> Finding | None:
    """Return a note with the most promising change; None near the roofline or without a roofline.

    `seen` is the GPU's activity during one call of the candidate; `counted` holds ncu's counters of its
    kernels.
    """
    fraction = measured.roofline_fraction
    if fraction is None or fraction >= NEAR:
        return None
    kind, advice = next(_advice(measured, trace, kernels, seen.launches if seen else None))
    if kind not in CERTAIN:
        kind, advice = next(counters.advice(counted, trace.min_bytes), (kind, advice))
    own = measured.candidate_ms.p50
    bound = "memory" if _intensity(trace) < RIDGE else "arithmetic"
    message = f"{100 * fraction:.3g} % of the roofline, which {bound} bounds. {advice}"
    rate = f"{trace.min_bytes / own / 1e6:.4g} GB/s and {trace.flops / own / 1e9:.4g} TFLOP/s"
    lines = [
        f"{own:.4g} ms: {rate} of the least traffic ({_megabytes(trace.min_bytes)}) and arithmetic",
        _launches(seen) if seen else "launches: not counted",
        "traffic of the operators one by one: " + _operators(trace),
        *(_resources(kernel) for kernel in kernels),
        *counters.figures(counted),
    ]
    return Finding(kind=kind, message=message, evidence="\n".join(lines), severity="note")


def _advice(
    measured: Measurement, trace: Trace, kernels: Sequence[KernelResources], launches: int | None
) -> Iterator[tuple[str, str]]:
    """Yield kind and sentence of each advice, most promising first; at least one always follows."""
    own = measured.candidate_ms.p50
    spilled = max(kernels, key=lambda kernel: kernel.spill_bytes or 0, default=None)
    if spilled is not None and spilled.spill_bytes:
        yield (
            "registers-spilled",
            f"Kernel {spilled.name} spills {spilled.spill_bytes} bytes of registers to memory: give each "
            "thread less to hold, or state __launch_bounds__.",
        )
    separate = sum(operation.bytes for operation in trace.operations)
    if launches is not None and launches > 1:
        if launches * LAUNCH_MS > own / 2:
            yield (
                "launch-bound",
                f"{launches} launches take about {launches * LAUNCH_MS:.3g} of {own:.3g} ms: do the work in "
                "fewer kernels.",
            )
        if separate > 1.5 * trace.min_bytes:
            yield (
                "not-fused",
                f"{launches} kernels pass intermediate results through memory, up to {_megabytes(separate)} "
                f"where {_megabytes(trace.min_bytes)} would do: fuse them.",
            )
    heavy = [kernel for kernel in kernels if (kernel.registers or 0) > MOST_REGISTERS]
    if heavy:
        yield (
            "many-registers",
            f"Kernel {heavy[0].name} takes {heavy[0].registers} registers a thread, so that few warps hide "
            "latency: make its tile smaller.",
        )
    if _intensity(trace) >= RIDGE:
        yield (
            "low-arithmetic-rate",
            "Reuse operands: tiles in shared memory, several results for each thread, so that each loaded "
            "value serves many multiplications.",
        )
    yield (
        "low-bandwidth",
        "Move more bytes at a time: neighbouring threads on neighbouring addresses, float4 loads, several "
        "independent loads for each thread, and each input read once.",
    )


def _intensity(trace: Trace) -> float:
    return trace.flops / max(trace.min_bytes, 1)


def _launches(seen: Profile) -> str:
    longest = seen.kernels[:KERNELS]
    each = ", ".join(f"{kernel.name[:NAME]} {kernel.launches} in {kernel.ms:.3g} ms" for kernel in longest)
    return f"launches of one call: {seen.launches} ({each})"


def _operators(trace: Trace) -> str:
    heaviest = sorted(trace.operations, key=lambda operation: -operation.bytes)[:OPERATORS]
    return ", ".join(f"{operation.op} {_megabytes(operation.bytes)}" for operation in heaviest)


def _resources(kernel: KernelResources) -> str:
    known = {
        "registers": kernel.registers,
        "bytes spilled": kernel.spill_bytes,
        "bytes of shared memory": kernel.shared_bytes,
    }
    words = ", ".join(f"{value} {name}" for name, value in known.items() if value is not None)
    return f"kernel {kernel.name}: {words or 'no compiler statistics'}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.3g} MB"
