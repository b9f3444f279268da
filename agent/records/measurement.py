"""Times of a verified candidate and its reference on a GPU."""

from typing import Literal, get_args

from pydantic import Field

from agent.records.base import Record

Baseline = Literal["eager", "compile", "graph", "max-autotune", "compile-graph", "max-autotune-graph"]
"""Reference as it is, under torch.compile, or in its mode max-autotune. `graph`: as a CUDA graph."""
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
MoreBaselines = Literal["max-autotune", "graphs"]
"""Baselines that a user can request. `graphs`: every baseline as a CUDA graph as well."""


class Percentiles(Record):
    p20: float = Field(gt=0)
    p50: float = Field(gt=0)
    p80: float = Field(gt=0)


class Card(Record):
    """The GPU's state while the candidate was timed; medians over its calls."""

    sm_mhz: float
    sm_least_mhz: float | None = None
    sm_most_mhz: float
    memory_mhz: float
    celsius: float
    watts: float
    throttle: str
    """Reasons why the clocks were held back; empty if there are none."""


class KernelTime(Record):
    """Time of one kernel, copy or fill during one call."""

    name: str
    launches: int
    ms: float
    """Milliseconds of all its launches together."""
    own: bool
    """True if the candidate's device code defines it."""


class Measurement(Record):
    """Times in milliseconds on the named GPU; None is unknown."""

    gpu: str
    candidate_ms: Percentiles
    eager_ms: Percentiles | None
    compile_ms: Percentiles | None
    baseline: Baseline | None
    """The fastest of those measured; the speedup is quoted against it."""
    roofline_fraction: float | None
    method: str
    graph_ms: Percentiles | None = None
    """The reference replayed as a CUDA graph; only where launches bound it, or that was asked for."""
    more_ms: dict[Baseline, Percentiles] = {}
    """The baselines that are timed where they were asked for."""
    rounds: int | None = None
    """Number of timed calls of the candidate."""
    speedup_interval: tuple[float, float] | None = None
    """95 % interval of the speedup over the rounds."""
    second_clock_ms: float | None = None
    """Milliseconds of a call by the judge's own clock."""
    stable: bool | None = None
    host_bound: bool | None = None
    """True if calls in a row take longer than their work on the GPU."""
    host_ms: float | None = None
    """Processor time of the host for one call; on a GPU that is busy it does not show."""
    card: Card | None = None
    compile_kernels: tuple[KernelTime, ...] = ()
    """Launches of torch.compile in one call, longest first: the times to beat. Empty if it is no baseline,
    or if CUDA's profiler reported nothing."""

    def beats(self, other: "Measurement | None") -> bool:
        """Return True if this measurement is faster beyond doubt.

        The intervals of the speedups decide if both have one. If the fastest baselines differ, the speedups
        do not compare, and the intervals of the times decide. Without intervals the medians decide. Any
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
        """Return the median of the baseline over the candidate's median, or None without a baseline."""
        base = self.baselines.get(self.baseline) if self.baseline else None
        return base.p50 / self.candidate_ms.p50 if base else None

    @property
    def baselines(self) -> dict[Baseline, Percentiles]:
        """Return the times of all baselines that were measured."""
        always: dict[Baseline, Percentiles | None] = {
            "eager": self.eager_ms, "compile": self.compile_ms, "graph": self.graph_ms,
        }  # fmt: skip
        return {name: times for name, times in always.items() if times is not None} | self.more_ms
