"""How long a verified candidate takes on a GPU, and the reference beside it."""

from typing import Literal

from pydantic import Field

from agent.records.base import Record


class Percentiles(Record):
    p20: float = Field(gt=0)
    p50: float = Field(gt=0)
    p80: float = Field(gt=0)


class Card(Record):
    """The GPU's state just after the timing, as nvidia-smi gives it."""

    sm_mhz: float
    sm_most_mhz: float
    memory_mhz: float
    celsius: float
    watts: float
    throttle: str
    """What held the clocks back; empty where nothing did."""


class Measurement(Record):
    """Times in milliseconds on the named GPU; None is unknown."""

    gpu: str
    candidate_ms: Percentiles
    eager_ms: Percentiles | None
    compile_ms: Percentiles | None
    baseline: Literal["eager", "compile", "graph"] | None
    """The fastest of those measured; the speedup is quoted against it."""
    roofline_fraction: float | None
    method: str
    graph_ms: Percentiles | None = None
    """The reference replayed as a CUDA graph; only where launches bound it."""
    rounds: int | None = None
    """How often the candidate was timed."""
    speedup_interval: tuple[float, float] | None = None
    """95 % interval of the speedup over the rounds."""
    second_clock_ms: float | None = None
    """What the judge's own clock says of a call."""
    stable: bool | None = None
    card: Card | None = None

    def beats(self, other: "Measurement | None") -> bool:
        """Whether it is faster beyond doubt: by the intervals of the speedups where both have one."""
        if other is None:
            return True
        same = (self.gpu, self.baseline) == (other.gpu, other.baseline)
        if same and self.speedup_interval and other.speedup_interval:
            return self.speedup_interval[0] > other.speedup_interval[1]
        return self.candidate_ms.p50 < other.candidate_ms.p50

    @property
    def speedup(self) -> float | None:
        """Median of the baseline over the candidate's median; None without a baseline."""
        known = {"eager": self.eager_ms, "compile": self.compile_ms, "graph": self.graph_ms}
        base = known.get(self.baseline or "")
        return base.p50 / self.candidate_ms.p50 if base else None
