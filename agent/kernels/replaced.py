"""What `replace_modules` did to a model: what was swapped and fused, what that gains, what stays and why."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.kernels import routing

SLOWER = 1.02
"""A fused call that takes longer than this many times its pair stays out: below, rounds differ as much."""
FORWARD, STEP = "forward", "forward and backward"


@dataclass(frozen=True)
class Gain:
    """Milliseconds of a pair and of the call in its place on the example, by the GPU's time alone."""

    gpu: str
    before_ms: float
    after_ms: float
    step_before_ms: float
    """Forward and backward."""
    step_after_ms: float

    def loss(self, training: bool) -> str | None:
        """How the call is slower, where it is: in training a step counts, else the forward."""
        if training:
            return _loss(STEP, self.step_before_ms, self.step_after_ms)
        return _loss(FORWARD, self.before_ms, self.after_ms)

    def __str__(self) -> str:
        return (
            f"forward {self.after_ms:.4g} ms instead of {self.before_ms:.4g}, with backward "
            f"{self.step_after_ms:.4g} instead of {self.step_before_ms:.4g} ({self.gpu})"
        )


@dataclass(frozen=True)
class CompiledGain:
    """Milliseconds of a whole model under torch.compile on the example, call after call."""

    gpu: str
    what: str
    """What is timed: a STEP of a model in training, else its FORWARD."""
    before_ms: float
    after_ms: float

    @property
    def loss(self) -> str | None:
        """How the model is slower than it was, where it is."""
        return _loss(self.what, self.before_ms, self.after_ms)

    def __str__(self) -> str:
        return f"{self.what} {self.after_ms:.4g} ms instead of {self.before_ms:.4g} ({self.gpu})"


def _loss(what: str, before_ms: float, after_ms: float) -> str | None:
    if after_ms <= SLOWER * before_ms:
        return None
    return f"slower here: {what} {after_ms:.4g} ms instead of {before_ms:.4g}"


@dataclass(frozen=True)
class Fusion:
    """One call in the place of several operations."""

    pattern: str
    kernel: str
    error: float
    """The largest of results and gradients on the example, against float64, as a share of their rms."""
    error_before: float
    """The same of the operations as they stood."""
    gain: Gain | None
    """None: not measured, for the example ran on no GPU."""

    def __str__(self) -> str:
        gain = "not measured: no GPU" if self.gain is None else str(self.gain)
        compiled = "; under torch.compile the compiler's own" if self.kernel in routing.POINTWISE else ""
        error = f"error {self.error:.1e} for {self.error_before:.1e}"
        return f"one call of {self.kernel}; {gain}; {error}{compiled}"


@dataclass(frozen=True)
class Replaced:
    """What `replace_modules` did, by the modules' names in the model."""

    swapped: dict[str, str] = field(default_factory=dict)
    """`encoder.0.norm` -> `GroupNorm`."""
    kept: dict[str, str] = field(default_factory=dict)
    """Modules of a kind that has a kernel, and pairs and modules that could not be fused: why they stayed."""
    fused: dict[str, Fusion] = field(default_factory=dict)
    """`encoder.0: norm + act` -> the call in its place."""
    difference: float | None = None
    """Largest of the example's outputs before and after, as a share of their rms; None: no example."""
    compiled: CompiledGain | None = None
    """Of the whole model under torch.compile, where that was asked for and what was replaced stays."""
    undo: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)

    def restore(self) -> None:
        """Puts back the very modules and forwards that stood there; what was replaced since then stays."""
        while self.undo:
            self.undo.pop()()

    def undone(self, why: str) -> "Replaced":
        """All put back, and why."""
        self.restore()
        return Replaced(kept={**self.kept, "the model itself": why})

    def __str__(self) -> str:
        lines = [f"{name}: {kind}" for name, kind in self.swapped.items()]
        lines += [f"{name}: {fusion}" for name, fusion in self.fused.items()]
        lines += [f"{name}: stays, {reason}" for name, reason in self.kept.items()]
        if self.compiled is not None:
            lines.append(f"under torch.compile the model takes: {self.compiled}")
        if self.difference is not None:
            lines.append(f"the example's outputs differ by at most {self.difference:.1e} of their rms")
        return "\n".join(lines) or "no module has a shipped kernel"
