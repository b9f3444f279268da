"""Numbers, times and verdicts in words, as all pages show them."""

from datetime import UTC, datetime

from agent.records import (
    Attempt,
    Finding,
    Location,
    Measurement,
    Percentiles,
    Scope,
    Status,
    TensorSpec,
    Usage,
)
from agent.store.history import Totals

_UNITS = ("", "k", "M", "G", "T", "P")


def amount(value: float, unit: str) -> str:
    """Format an amount with three digits and a metric prefix: `15.0 GB`, `1.88 GFLOP`."""
    scaled, step = float(value), 0
    while abs(scaled) >= 999.5 and step < len(_UNITS) - 1:
        scaled, step = scaled / 1000, step + 1
    if step == 0:
        return f"{scaled:.0f} {unit}"
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{digits}f} {_UNITS[step]}{unit}"


def milliseconds(value: float) -> str:
    """Format a time in ms with three digits: `0.0372 ms`, `12.4 ms`."""
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"


def spread(times: Percentiles) -> str:
    return f"{milliseconds(times.p50)} (p20 {times.p20:.3g}, p80 {times.p80:.3g})"


def duration(seconds: float) -> str:
    """Format a duration: `0.4 s`, `12 s`, `3:07`, `1:02:03`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def moment(time: datetime) -> str:
    """Format a time as date and minute, UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M}"


def cost(dollars: float) -> str:
    return f"${dollars:,.2f}" if dollars >= 0.995 else f"${dollars:.3g}"


def tokens(usage: Usage | Totals) -> str | None:
    """Format input and output tokens: `2,710, 1,900`. Returns None if the endpoint counted neither."""
    counts = (usage.input_tokens, usage.output_tokens)
    if counts == (None, None):
        return None
    return ", ".join("unknown" if count is None else f"{count:,}" for count in counts)


def ratio(value: float) -> str:
    return f"{value:.2f}\u00d7"


def status(value: Status | str) -> str:
    """Return the status in words: `build error`."""
    return str(value).replace("_", " ")


def verdict(attempt: Attempt) -> str:
    """Return the verdict in words: `incorrect`, `verified (emulator, shrunken)`.

    A verified one always names its scope.
    """
    evaluation = attempt.evaluation
    if evaluation.status is not Status.VERIFIED:
        return status(evaluation.status) + (", withdrawn by its second look" if evaluation.withdrawn else "")
    return verified(evaluation.scope)


def verified(scope: Scope) -> str:
    """Return *verified* with its scope: `verified (emulator, shrunken)`."""
    where = "GPU" if scope.executor == "cuda" else "emulator"
    return f"verified ({', '.join([where, *scope.limits])})"


def gain(measurement: Measurement) -> str | None:
    """Describe the speed: `2.10x against compile, 71 % of the roofline`. Returns None if neither is known."""
    words = []
    if measurement.speedup is not None:
        words.append(f"{ratio(measurement.speedup)} against {measurement.baseline}")
    if measurement.roofline_fraction is not None:
        words.append(f"{100 * measurement.roofline_fraction:.0f} % of the roofline")
    return ", ".join(words) or None


def tensor(spec: TensorSpec) -> str:
    """Describe a tensor: `float32 112\u00d764\u00d7512\u00d7512`, followed by its name if it has one.

    A scalar shows `scalar` in place of sizes.
    """
    sizes = "\u00d7".join(map(str, spec.shape)) or "scalar"
    return f"{spec.dtype} {sizes}" + (f" {spec.name}" if spec.name else "")


def place(location: Location) -> str:
    """Describe a location without its line: `kernel add, block (0, 0, 3), thread (31, 0, 0)`.

    Empty if only the line is known.
    """
    words = [
        f"{name} {value}"
        for name, value in (
            ("kernel", location.kernel),
            ("block", location.block),
            ("thread", location.thread),
        )
        if value is not None
    ]
    return ", ".join(words)


def times(finding: Finding) -> str:
    """Return how often a finding occurred, if more than once."""
    return f" ({finding.count:,} times)" if finding.count > 1 else ""
