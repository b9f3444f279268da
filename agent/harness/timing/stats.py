"""Interpretation of measured times: which of them count, and findings on their reliability."""

import math
import random
from collections.abc import Iterator
from statistics import median, mode, quantiles
from typing import Any, NamedTuple

from agent.records import Finding, Measurement, Percentiles

FRESH_FEW = 4
"""Number of calls in the shorter row with separate inputs."""
UNSTABLE = 0.05
"""Spread between the 20th and 80th percentile, relative to the median, above which times are unstable."""
HOST_BOUND = 0.03
"""Relative excess of the time per call in a row over the call's GPU time, above which the host limits it."""
DISAGREEMENT = 0.1
SLOWED = 0.9
"""Ratio below which a finding reports a low SM clock, or a baseline that is faster without the candidate."""
CERTAIN = 0.003
"""Half the 95 % interval of a median, relative to the median, at which no further rounds are timed."""
SAMPLES = 1000
ALWAYS = ("eager", "compile", "graph")
"""Baselines with a field of their own in `Measurement`."""
LATE_SHARE = 0.3
"""Share of calls with late launches above which the host explains a spread of times."""
EXPLAINED = 0.5
"""Share of a spread that may remain without a suspected cause for the cause to explain the spread."""
FEW_SAMPLES = 5
IMPOSSIBLE = 0.9
"""Minimum time of a correct kernel, as a share of the roofline floor."""
METHOD = (
    "CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock "
    "where those take longer; second clock: wall time in the judge"
)

FAST_BUILD = Finding(
    kind="fast-build",
    severity="note",
    message="These times are of a fast build, in which torch's operators cost the host about 0.1 ms a call "
    "more than in one by stock load_inline; calls in a row are held up by that.",
)


class Round(NamedTuple):
    """Times of one round, in milliseconds."""

    events: dict[str, float]
    """Time of each process's call by its own CUDA events, a claim in the candidate's case."""
    wall: float
    """Wall time of the candidate's call in the judge, minus that of the noop worker's call (`nothing`)."""
    nothing: float
    host: dict[str, float] = {}
    """Processor time that the host spent on each process's call."""
    late: frozenset[str] = frozenset()
    """Processes whose launches came so late that the GPU may have waited for them."""
    is_first: bool = True
    """True if the candidate was called before the baselines."""
    card: dict[str, Any] = {}
    """GPU state just after the candidate's call, as `oracle.card` samples it."""
    flushes: int = 5
    """Overwrites of the L2 cache before each call."""


Alone = dict[str, tuple[float, float]]
"""Milliseconds of a single call and per call in a row, for each baseline.

If the single call takes at least `believed_from`, both numbers are its time.
"""


class Times(NamedTuple):
    rounds: list[Round]
    slopes: dict[str, float]
    """Milliseconds per call in a row, for candidate and baselines; the candidate's by the judge's clock."""
    card: dict[str, Any]
    fresh: float | None = None
    """Milliseconds per call in a row with separate inputs, by the judge's clock; None for large tensors."""
    rows: dict[str, tuple[int, int]] = {}
    """Numbers of calls in the short and the long row, for candidate and baselines."""

    def of(self, name: str) -> list[float]:
        """Return the event times of one process's calls.

        Calls in which the GPU waited for the host are left out, unless they are more than half.
        """
        prompt = [entry.events[name] for entry in self.rounds if name not in entry.late]
        enough = 2 * len(prompt) >= len(self.rounds)
        return prompt if enough else [entry.events[name] for entry in self.rounds]

    def wall(self) -> float:
        """Return the least wall time of a candidate's call minus the least of a noop worker's call.

        Every call has to compute its outputs, and a busy host only lengthens a call. The minimum is therefore
        the time that a call needs.
        """
        # More overwrites of the L2 cache lengthen both times, so only rounds with equal numbers compare.
        usual = mode(r.flushes for r in self.rounds)
        rounds = [r for r in self.rounds if r.flushes == usual]
        return min(r.wall + r.nothing for r in rounds) - min(r.nothing for r in rounds)

    def host_ms(self, name: str) -> float | None:
        """Return the least processor time of a process's call on the host in milliseconds, or None."""
        found = [entry.host[name] for entry in self.rounds if name in entry.host]
        return min(found, default=None)


def measurement(times: Times, gpu: str, floor_ms: float | None, alone: Alone) -> Measurement:
    """Return the measurement; `alone` holds the baselines' times after the candidate has ended."""
    spreads = {name: _spans(times, name) for name in times.slopes}
    candidate = spreads.pop("candidate")
    candidate = _scaled(candidate, _counted(times, candidate.p50) / candidate.p50)
    for name, found in alone.items():
        if name in spreads and max(found) < believed_from(times, name):
            spreads[name] = _scaled(spreads[name], max(found) / spreads[name].p50)
    baseline = min(spreads, key=lambda name: spreads[name].p50)
    return Measurement.model_validate({
        "gpu": gpu,
        "candidate_ms": candidate,
        **{f"{name}_ms": spreads.get(name) for name in ALWAYS},
        "more_ms": {name: spans for name, spans in spreads.items() if name not in ALWAYS},
        "baseline": baseline,
        "roofline_fraction": floor_ms / candidate.p50 if floor_ms else None,
        "method": METHOD,
        "rounds": len(times.rounds),
        "speedup_interval": interval(times, baseline, spreads[baseline].p50 / candidate.p50),
        "second_clock_ms": max(
            times.wall() - resolution(times), times.slopes["candidate"], times.fresh or 0.0, 0.0
        ),
        "stable": spread(times.of("candidate")) <= UNSTABLE,
        "host_bound": times.slopes["candidate"] > median(times.of("candidate")) * (1 + HOST_BOUND),
        "host_ms": times.host_ms("candidate"),
        "card": _under_load(times),
    })  # fmt: skip


def _under_load(times: Times) -> dict[str, Any] | None:
    """Return the GPU's state under load, with medians over the sampled rounds, or None if unknown."""
    card, samples = dict(times.card.get("card") or {}), [entry.card for entry in times.rounds if entry.card]
    if not card or not samples:
        return dict(card) if card else None
    reasons = dict.fromkeys(text for one in samples for text in str(one["throttle"]).split(", ") if text)
    clocks = [float(one["sm_mhz"]) for one in samples]
    return card | {
        "sm_mhz": median(clocks), "sm_least_mhz": min(clocks), "throttle": ", ".join(reasons),
        "watts": median(float(one["watts"]) for one in samples),
    }  # fmt: skip


def spread_cause(times: Times) -> str:
    """Return the likely cause of the spread in the candidate's times, worded for a finding."""
    name = "candidate"
    whole = spread([entry.events[name] for entry in times.rounds])
    late = sum(name in entry.late for entry in times.rounds) / len(times.rounds)
    if late > LATE_SHARE:
        return f"in {late:.0%} of the calls the GPU waited for the host, or the call for the GPU"
    clocked = [(r.events[name], float(r.card["sm_mhz"])) for r in times.rounds if r.card.get("sm_mhz")]
    if len(clocked) >= FEW_SAMPLES and spread([ms * mhz for ms, mhz in clocked]) < EXPLAINED * whole:
        clocks = [mhz for _, mhz in clocked]
        return f"the SM clock moved between {min(clocks):g} and {max(clocks):g} MHz"
    orders = [[r.events[name] for r in times.rounds if r.is_first is first] for first in (True, False)]
    if min(map(len, orders)) >= FEW_SAMPLES and max(map(spread, orders)) < EXPLAINED * whole:
        first, later = (median(order) for order in orders)
        return f"before the baselines a call takes {first:.4g} ms, behind them {later:.4g} ms"
    return "neither the host, nor the clock, nor the order of the calls explains it"


def disagree(times: Times) -> bool:
    """Return True if the judge measures a longer time than the candidate's events and calls in a row."""
    said = _spans(times, "candidate").p50
    return _counted(times, said) > said


def _counted(times: Times, said: float) -> float:
    """Return the milliseconds of a call that count: `said`, or a larger time by the judge's clocks.

    `said` is the candidate's own median.
    """
    for judged, blur in ((times.wall(), resolution(times)), (times.fresh or 0.0, _blur_of_fresh(times))):
        if judged > said * (1 + DISAGREEMENT) + blur:
            said = judged
    return said


def believed_from(times: Times, name: str) -> float:
    """Return the milliseconds that a baseline has to fall below, without the candidate, to count as faster.

    Smaller differences are noise between two series of measurements.
    """
    return (1 - UNSTABLE) * _spans(times, name).p50


def findings(times: Times, found: Measurement, alone: Alone) -> Iterator[Finding]:
    """Yield findings on slowed baselines, disagreeing clocks, unstable times and a throttled GPU."""
    for name, (ms, _) in alone.items():
        beside = median(times.of(name)) if name in times.slopes else ms
        if ms < SLOWED * beside:
            message = (
                f"Beside the candidate's process the reference ({name}) took {beside:.4g} ms, without it "
                f"{ms:.4g} ms, which counts: the candidate leaves work behind that slows others."
            )
            yield Finding(kind="reference-slowed", severity="warning", message=message)
    claimed, counted = median(times.of("candidate")), found.candidate_ms.p50
    if counted > max(claimed, times.slopes["candidate"]):
        message = (
            f"By its own events a call takes {claimed:.4g} ms, by the judge's clock {counted:.4g} ms, which "
            "counts: work goes on where the events do not see it."
        )
        yield Finding(kind="clocks-disagree", severity="warning", message=message)
    elif counted > claimed * (1 + DISAGREEMENT):
        message = (
            f"Calls in a row take {counted:.4g} ms each, the GPU's work in one of them {claimed:.4g} ms: "
            "host code, launches or allocations hold it up."
        )
        yield Finding(kind="host-bound", severity="note", message=message)
    if not found.stable:
        share = spread(times.of("candidate"))
        cause = spread_cause(times)
        message = f"The times spread by {share:.0%} between the 20th and the 80th percentile: {cause}."
        yield Finding(kind="unstable-times", severity="note", message=message)
    card = found.card
    if card and card.throttle and card.sm_mhz < SLOWED * card.sm_most_mhz:
        message = f"The GPU ran at {card.sm_mhz:g} of {card.sm_most_mhz:g} MHz: {card.throttle}."
        yield Finding(kind="throttled", severity="note", message=message)


def impossible(found: Measurement) -> Finding | None:
    """Return a finding if the time is shorter than reading inputs and writing outputs can take, or None."""
    fraction = found.roofline_fraction
    if fraction is None or fraction <= 1 / IMPOSSIBLE:
        return None
    floor = fraction * found.candidate_ms.p50
    message = (
        f"{found.candidate_ms.p50:.4g} ms is less than {IMPOSSIBLE:.0%} of the {floor:.4g} ms that reading "
        "the inputs and writing the outputs takes on this GPU: the work is not done in these calls."
    )
    return Finding(kind="faster-than-possible", message=message)


def resolution(times: Times) -> float:
    """Return the resolution of the judge's clock in milliseconds: the spread of noop calls."""
    spans = percentiles([entry.nothing for entry in times.rounds])
    return spans.p80 - spans.p20


def _blur_of_fresh(times: Times) -> float:
    """Return the uncertainty of `Times.fresh` in milliseconds: two rows' over the least number of calls."""
    return 2 * resolution(times) / FRESH_FEW


def interval(times: Times, baseline: str, speedup: float) -> tuple[float, float]:
    """Return the 95 % interval of the speedup over a baseline, by bootstrap over whole rounds."""
    chance = random.Random(len(times.rounds))
    pairs = [(entry.events[baseline], entry.events["candidate"]) for entry in times.rounds]
    ratios = []
    for _ in range(SAMPLES):
        sample = chance.choices(pairs, k=len(pairs))
        ratios.append(median(pair[0] for pair in sample) / median(pair[1] for pair in sample))
    cuts, middle = quantiles(ratios, n=40, method="inclusive"), median(ratios)
    return speedup * cuts[0] / middle, speedup * cuts[-1] / middle


def percentiles(values: list[float]) -> Percentiles:
    cuts = quantiles(values, n=10, method="inclusive")
    return Percentiles(p20=cuts[1], p50=cuts[4], p80=cuts[7])


def spread(values: list[float]) -> float:
    spans = percentiles(values)
    return (spans.p80 - spans.p20) / spans.p50


def certain(rounds: list[Round]) -> bool:
    """Return True if the median of each timed process is certain to within `CERTAIN`."""
    names = rounds[0].events if rounds else {}
    return bool(names) and all(
        _uncertainty([entry.events[name] for entry in rounds]) <= CERTAIN for name in names
    )


def _uncertainty(values: list[float]) -> float:
    """Return half the 95 % interval of the median, relative to the median.

    The interval follows from ranks, which holds for any distribution.
    """
    ordered, count = sorted(values), len(values)
    low = int((count - 1.96 * count**0.5) / 2)
    if low < 0:
        return math.inf
    return (ordered[count - 1 - low] - ordered[low]) / 2 / median(ordered)


def _spans(times: Times, name: str) -> Percentiles:
    return _in_a_row(percentiles(times.of(name)), times.slopes[name])


def _in_a_row(spans: Percentiles, slope: float) -> Percentiles:
    """Return the times of calls in a row, scaled to `slope` if the host holds up the row."""
    return _scaled(spans, slope / spans.p50) if slope > spans.p50 * (1 + HOST_BOUND) else spans


def _scaled(spans: Percentiles, factor: float) -> Percentiles:
    return Percentiles(p20=spans.p20 * factor, p50=spans.p50 * factor, p80=spans.p80 * factor)
