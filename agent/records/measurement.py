"""Times of a verified candidate and its reference on a GPU."""

from typing import Literal, get_args

from pydantic import Field

from agent.records.base import Record

Baseline = Literal["eager", "compile", "graph", "max-autotune", "compile-graph", "max-autotune-graph"]
"""Way of running the reference that is timed: eagerly, with torch.compile, or with its mode `max-autotune`.
`graph`: replayed as a CUDA graph."""
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
MoreBaselines = Literal["max-autotune", "graphs"]
"""Baselines that a user can request. `graphs`: every baseline as a CUDA graph as well."""


class Percentiles(Record):
    p20: float = Field(gt=0)
    p50: float = Field(gt=0)
    p80: float = Field(gt=0)


class Card(Record):
    """State of the GPU while the candidate was timed, as medians over the timed calls."""

    sm_mhz: float
    sm_least_mhz: float | None = None
    sm_most_mhz: float
    memory_mhz: float
    celsius: float
    watts: float
    throttle: str
    """Reasons why the GPU's clocks were throttled; empty if there are none."""


class KernelTime(Record):
    """Time of one kernel, copy or fill during one call."""

    name: str
    launches: int
    ms: float
    """Milliseconds of all launches of the kernel together."""
    own: bool
    """True if the candidate's device code defines the kernel."""


class Measurement(Record):
    """Times of the candidate and the baselines in milliseconds, on the named GPU; None means unknown."""

    gpu: str
    candidate_ms: Percentiles
    eager_ms: Percentiles | None
    compile_ms: Percentiles | None
    baseline: Baseline | None
    """Fastest measured baseline, to which the speedup refers."""
    roofline_fraction: float | None
    method: str
    graph_ms: Percentiles | None = None
    """Times of the reference replayed as a CUDA graph. Measured only if launches bound the reference, or on
    request."""
    more_ms: dict[Baseline, Percentiles] = {}
    """Times of the baselines that are measured only on request."""
    rounds: int | None = None
    """Number of timed calls of the candidate."""
    speedup_interval: tuple[float, float] | None = None
    """95 % confidence interval of the speedup over the rounds."""
    second_clock_ms: float | None = None
    """Milliseconds of one call of the candidate by the judge's own clock."""
    stable: bool | None = None
    host_bound: bool | None = None
    """True if consecutive calls take longer than their work on the GPU, because the host cannot keep up."""
    host_ms: float | None = None
    """Milliseconds of CPU time for one call. A busy GPU hides this time."""
    card: Card | None = None
    compile_kernels: tuple[KernelTime, ...] = ()
    """Kernels that the reference launches in one call under torch.compile, longest first. Empty if
    torch.compile is not a baseline, or if CUDA's profiler reported no kernel."""

    def beats(self, other: "Measurement | None") -> bool:
        """Return True if this measurement is faster than `other` beyond measurement noise.

        If both have intervals of the speedup against the same baseline, these intervals decide. If the
        baselines differ, the intervals of the times decide. Without intervals the medians decide. Any
        measurement beats None.
        """
        if other is None:
            return True
        mine, its = self.speedup_interval, other.speedup_interval
        if mine and its and (self.gpu, self.baseline) == (other.gpu, other.baseline):
            return mine[0] > its[1]
        if self.gpu == other.gpu and self._interval_ms and other._interval_ms:
            return self._interval_ms[1] < other._interval_ms[0]
        return self.candidate_ms.p50 < other.candidate_ms.p50

    @property
    def _interval_ms(self) -> tuple[float, float] | None:
        if self.speedup_interval is None or self.speedup is None:
            return None
        low, high = self.speedup_interval
        base = self.candidate_ms.p50 * self.speedup
        return base / high, base / low

    @property
    def speedup(self) -> float | None:
        """Return the baseline's median time divided by the candidate's, or None without a baseline."""
        base = self.baselines.get(self.baseline) if self.baseline else None
        return base.p50 / self.candidate_ms.p50 if base else None

    @property
    def baselines(self) -> dict[Baseline, Percentiles]:
        """Return the times (ms) of all measured baselines, by name."""
        always: dict[Baseline, Percentiles | None] = {
            "eager": self.eager_ms, "compile": self.compile_ms, "graph": self.graph_ms,
        }  # fmt: skip
        return {name: times for name, times in always.items() if times is not None} | self.more_ms
