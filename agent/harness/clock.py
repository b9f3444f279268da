"""The clock: a verified candidate and the reference timed in turns, each in its own process.

In every round the oracle writes fresh contents into the memory of the inputs, and candidate and reference are
called once each, in an order that turns round from one round to the next. Events in the candidate's process
are its own claim. So the judge has clocks of its own: the wall time from a command until the oracle has taken
the outputs, less that of a module that does nothing, and the slope of the wall time over two numbers of calls
in a row. The largest counts. A secret sample of the timed outputs, the last always among them, is compared.
"""

import random
import secrets
import time
from collections.abc import Iterator
from statistics import median, quantiles
from typing import Any, NamedTuple

from agent.harness.bench import Ask, Bench
from agent.records import Finding, Measurement, Percentiles

WARM_UP = 3
ROUNDS, LEAST_ROUNDS = 100, 12
BUDGET_S = 8.0
SAMPLED = 4
"""Rounds whose outputs are compared, beside the last."""
SLOPES = 5
SLOPE_MS = 20.0
"""What the calls of one slope take together, so that the noise of a wall time is small beside it."""
FEW, MOST = 5, 400
LAUNCH_BOUND_MS = 0.2
"""Below this eager time a CUDA graph of the reference is a baseline as well."""
UNSTABLE = 0.05
"""Spread between the 20th and 80th percentile, relative to the median, from which on times are repeated."""
HOST_BOUND = 0.03
"""Share by which calls in a row may take longer than their work on the GPU."""
DISAGREEMENT = 0.1
SLOWED = 0.9
"""Share of the highest clock below which a reader is told."""
SAMPLES = 1000
IMPOSSIBLE = 0.9
"""Share of the roofline floor below which no correct kernel can be."""
METHOD = (
    "CUDA events, cold L2, fresh inputs, in turns with the reference, or calls in a row by the wall clock "
    "where those take longer; second clock: wall time in the judge"
)


class Round(NamedTuple):
    """Milliseconds."""

    events: dict[str, float]
    """What each process says of its call."""
    wall: float
    """The judge's time for the candidate's call beyond that of nothing."""
    nothing: float


class Times(NamedTuple):
    rounds: list[Round]
    slopes: dict[str, float]
    """Milliseconds of each call in a row; the candidate's by the judge's clock."""
    card: dict[str, Any]

    def of(self, name: str) -> list[float]:
        return [entry.events[name] for entry in self.rounds]

    def wall(self) -> float:
        return median(entry.wall for entry in self.rounds)


def timed(bench: Bench, compiled: bool = True) -> Times:
    """Times of one candidate; once more where they are unstable."""
    command = {"do": "baselines", "compiled": compiled, "launch_bound_ms": LAUNCH_BOUND_MS}
    names = bench.oracle(command)["names"]
    times = _timed(bench, names)
    return _timed(bench, names) if spread(times.of("candidate")) > UNSTABLE else times


def _timed(bench: Bench, names: list[str]) -> Times:
    list(_rounds(bench, names, WARM_UP, 0.0))
    rounds = list(_rounds(bench, names, ROUNDS, BUDGET_S))
    slopes = {}
    for name in ("candidate", *names):
        about = median(entry.events[name] for entry in rounds)
        many = FEW + min(max(int(SLOPE_MS / about), FEW), MOST)
        slopes[name] = median(_slope(bench, name, FEW, many) for _ in range(SLOPES))
    return Times(rounds, slopes, bench.oracle({"do": "card"}))


def _rounds(bench: Bench, names: list[str], most: int, budget_s: float) -> Iterator[Round]:
    started, least = time.monotonic(), min(most, LEAST_ROUNDS)
    for number in range(most):
        late = number + 1 >= least and time.monotonic() - started > budget_s
        last = late or number + 1 == most
        order = ["candidate", "nothing", *names]
        yield _round(bench, order[:: -1 if number % 2 else 1], last or secrets.randbelow(most) < SAMPLED)
        if last:
            return


def _round(bench: Bench, order: list[str], compared: bool) -> Round:
    bench.oracle({"do": "refresh", "seed": secrets.randbits(62)})
    events: dict[str, float] = {}
    walls: dict[str, float] = {}
    for name in order:
        if name == "nothing":
            walls[name], _ = _wall(bench, bench.nothing, {"do": "timed"})
        elif name == "candidate":
            walls[name], answer = _wall(bench, bench.candidate, {"do": "timed"})
            events[name] = _positive(answer.get("ms"))
            if compared:
                bench.compare(answer)
        else:
            events[name] = _positive(bench.oracle({"do": "timed", "what": name}).get("ms"))
    return Round(events, walls["candidate"] - walls["nothing"], walls["nothing"])


def _wall(bench: Bench, ask: Ask, command: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Milliseconds until the oracle has copied what came of the command, and the answer."""
    started = time.monotonic()
    answer = ask(command)
    bench.oracle({"do": "take"})
    return 1000 * (time.monotonic() - started), answer


def _slope(bench: Bench, name: str, few: int, many: int) -> float:
    """Milliseconds of each call in a row of them."""
    if name != "candidate":
        return _positive(bench.oracle({"do": "slope", "what": name, "few": few, "many": many}).get("ms"))
    walls = [_wall(bench, bench.candidate, {"do": "repeated", "times": times})[0] for times in (few, many)]
    return (walls[1] - walls[0]) / (many - few)


def measurement(times: Times, gpu: str, floor_ms: float | None, alone_ms: float | None) -> Measurement:
    """The times that count; `alone_ms`: the eager reference once the candidate is gone."""
    spreads = {name: _in_a_row(percentiles(times.of(name)), times.slopes[name]) for name in times.slopes}
    candidate = spreads.pop("candidate")
    if times.wall() > candidate.p50 * (1 + DISAGREEMENT) + resolution(times):
        candidate = _scaled(candidate, times.wall() / candidate.p50)
    if alone_ms and alone_ms < spreads["eager"].p50:
        eager = _scaled(spreads["eager"], alone_ms / spreads["eager"].p50)
        spreads["eager"] = _in_a_row(eager, times.slopes["eager"])
    baseline = min(spreads, key=lambda name: spreads[name].p50)
    return Measurement.model_validate({
        "gpu": gpu,
        "candidate_ms": candidate,
        **{f"{name}_ms": spreads.get(name) for name in ("eager", "compile", "graph")},
        "baseline": baseline,
        "roofline_fraction": floor_ms / candidate.p50 if floor_ms else None,
        "method": METHOD,
        "rounds": len(times.rounds),
        "speedup_interval": interval(times, baseline, spreads[baseline].p50 / candidate.p50),
        "second_clock_ms": max(times.wall() - resolution(times), times.slopes["candidate"], 0.0),
        "stable": spread(times.of("candidate")) <= UNSTABLE,
        "card": times.card.get("card") or None,
    })  # fmt: skip


def findings(times: Times, found: Measurement) -> Iterator[Finding]:
    """What a reader of the times has to know."""
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
        message = f"The times spread by {share:.0%} between the 20th and the 80th percentile, twice in a row."
        yield Finding(kind="unstable-times", severity="note", message=message)
    card = found.card
    if card and card.throttle and card.sm_mhz < SLOWED * card.sm_most_mhz:
        message = f"The GPU ran at {card.sm_mhz:g} of {card.sm_most_mhz:g} MHz: {card.throttle}."
        yield Finding(kind="throttled", severity="note", message=message)


def impossible(found: Measurement) -> Finding | None:
    """The finding for a time that no kernel with this result can have."""
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
    """Milliseconds below which the second clock tells nothing."""
    spans = percentiles([entry.nothing for entry in times.rounds])
    return spans.p80 - spans.p20


def interval(times: Times, baseline: str, speedup: float) -> tuple[float, float]:
    """The 95 % interval of the speedup by resampling whole rounds, around the speedup that is quoted."""
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


def _in_a_row(spans: Percentiles, slope: float) -> Percentiles:
    """What a caller waits for who makes one call after the other."""
    return _scaled(spans, slope / spans.p50) if slope > spans.p50 * (1 + HOST_BOUND) else spans


def _scaled(spans: Percentiles, factor: float) -> Percentiles:
    return Percentiles(p20=spans.p20 * factor, p50=spans.p50 * factor, p80=spans.p80 * factor)


def _positive(value: object) -> float:
    return max(float(value), 1e-6) if isinstance(value, (int, float)) else 1e-6
