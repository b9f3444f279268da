"""Report of `replace_modules`: modules swapped and fused, the time saved, and the reasons for what stays."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.kernels import routing

SLOWER = 1.02
"""Ratio of times above which a fused call is rejected as slower. Rounds differ by as much."""
FORWARD, STEP = "forward", "forward and backward"


@dataclass(frozen=True)
class Gain:
    """Milliseconds of the original operations and of the fused call on the example, on the GPU alone."""

    gpu: str
    before_ms: float
    after_ms: float
    step_before_ms: float
    """Time of forward and backward."""
    step_after_ms: float

    def loss(self, training: bool) -> str | None:
        """Return by how much the fused call is slower, or None if it is not slower.

        In training the training step decides, otherwise the forward.
        """
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
    """Milliseconds of a whole model under torch.compile on the example, called back to back."""

    gpu: str
    what: str
    """Timed call: STEP for a model in training, FORWARD otherwise."""
    before_ms: float
    after_ms: float

    @property
    def loss(self) -> str | None:
        """Return by how much the model became slower, or None if it did not."""
        return _loss(self.what, self.before_ms, self.after_ms)

    def __str__(self) -> str:
        return f"{self.what} {self.after_ms:.4g} ms instead of {self.before_ms:.4g} ({self.gpu})"


def _loss(what: str, before_ms: float, after_ms: float) -> str | None:
    if after_ms <= SLOWER * before_ms:
        return None
    return f"slower here: {what} {after_ms:.4g} ms instead of {before_ms:.4g}"


@dataclass(frozen=True)
class Fusion:
    """One fused call that replaces several operations."""

    pattern: str
    kernel: str
    error: float
    """Largest error of results and gradients on the example against float64, as a share of their rms."""
    error_before: float
    """Largest error of the original operations, by the same measure."""
    gain: Gain | None
    """Measured times, or None if the example ran on no GPU."""

    def __str__(self) -> str:
        gain = "not measured: no GPU" if self.gain is None else str(self.gain)
        compiled = "; under torch.compile the compiler's own" if self.kernel in routing.POINTWISE else ""
        error = f"error {self.error:.1e} for {self.error_before:.1e}"
        return f"one call of {self.kernel}; {gain}; {error}{compiled}"


@dataclass(frozen=True)
class Replaced:
    """Outcome of `replace_modules`, by the modules' names in the model."""

    swapped: dict[str, str] = field(default_factory=dict)
    """Class of each swapped module: `encoder.0.norm` -> `GroupNorm`."""
    kept: dict[str, str] = field(default_factory=dict)
    """Reasons why a module that has a kernel was not swapped, or operations or a module not fused."""
    fused: dict[str, Fusion] = field(default_factory=dict)
    """Fused call of each group of operations: `encoder.0: norm + act` -> its Fusion."""
    difference: float | None = None
    """Largest difference of the example's outputs before and after, as a share of their rms.

    None without an example."""
    compiled: CompiledGain | None = None
    """Times of the whole model under torch.compile, if `compiled` was set and the replacement stays."""
    undo: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)

    def restore(self) -> None:
        """Put back the original modules and forwards. A module that was replaced again since then stays."""
        while self.undo:
            self.undo.pop()()

    def undone(self, why: str) -> "Replaced":
        """Restore everything, and return a report with the reason."""
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
