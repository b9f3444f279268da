"""Geometry of a report's plots, in units of the drawing; `templates/report.html` draws them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from agent.bench.outcome import BEST
from agent.bench.report import Report

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 52, 96, 14, 34
ROW = 16
MOST_ROWS = 400


class Tick(NamedTuple):
    at: float
    words: str


class Curve(NamedTuple):
    """Curve of fast_p over p against one baseline."""

    name: str
    path: str
    end: float
    """Vertical position of the label with the curve's name."""
    points: tuple[tuple[float, float, str], ...]


class Curves(NamedTuple):
    curves: tuple[Curve, ...]
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    one: float
    """Horizontal position of a speedup of 1, as fast as the baseline."""


class Bar(NamedTuple):
    """One verified kernel compared with its best baseline."""

    name: str
    y: float
    x: float
    low: float
    high: float
    words: str
    faster: bool


class Ladder(NamedTuple):
    bars: tuple[Bar, ...]
    x: tuple[Tick, ...]
    one: float
    height: float
    left: float
    more: int
    """Number of kernels that are not drawn."""


def curves(report: Report) -> Curves | None:
    """Return fast_p against each baseline over all problems, or None if nothing was timed."""
    speeds = report.whole.speeds
    if not speeds:
        return None
    ps = [float(p) for p in speeds[0].fast]
    across = _log(ps[0], ps[-1], LEFT, WIDTH - RIGHT)
    drawn = []
    taken: list[float] = []
    for one in speeds:
        points = tuple(
            (across(float(p)), _up(fast.value), f"fast_{p} {100 * fast.value:.0f} %")
            for p, fast in one.fast.items()
        )
        path = " ".join(f"{'L' if k else 'M'}{x:.1f} {y:.1f}" for k, (x, y, _) in enumerate(points))
        end = points[-1][1]
        while any(abs(end - other) < 13 for other in taken):
            end -= 13
        taken.append(end)
        drawn.append(Curve("best baseline" if one.baseline == BEST else one.baseline, path, end, points))
    shown = [p for p in (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0) if p in ps]
    return Curves(
        tuple(drawn), tuple(Tick(across(p), f"{p:g}x") for p in shown),
        tuple(Tick(_up(part / 4), f"{25 * part} %") for part in range(5)), across(1.0),
    )  # fmt: skip


def ladder(report: Report) -> Ladder | None:
    """Return every timed kernel by its speedup, fastest first, or None if nothing was timed."""
    timed = [(one, speed) for one in report.outcomes if (speed := one.speedup()) is not None]
    if not timed:
        return None
    timed.sort(key=lambda pair: -pair[1])
    shown = timed[:MOST_ROWS]
    ends = [end for one, speed in shown for end in (one.speedup_interval or (speed, speed))]
    low, high = min([*ends, 0.9]) / 1.1, max([*ends, 1.2]) * 1.1
    left = min(320.0, 12 + 6.4 * max(len(one.label) for one, _ in shown))
    across = _log(low, high, left, WIDTH - 70)
    bars = []
    for row, (one, speed) in enumerate(shown):
        lowest, highest = one.speedup_interval or (speed, speed)
        middle = TOP + ROW * (row + 0.5)
        bars.append(
            Bar(one.label, middle, across(speed), across(lowest), across(highest), f"{speed:.2f}x", speed > 1)
        )
    ticks = tuple(Tick(across(p), f"{p:g}x") for p in _steps(low, high))
    return Ladder(tuple(bars), ticks, across(1.0), TOP + ROW * len(shown) + 26, left, len(timed) - len(shown))


def _steps(low: float, high: float) -> Sequence[float]:
    return [p for p in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= p <= high]


def _up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


class _log:  # noqa: N801 - called like the function it is
    """Map from a logarithmic scale to drawing units."""

    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self._low, self._span = math.log(low), math.log(high) - math.log(low)
        self._left, self._width = left, right - left

    def __call__(self, value: float) -> float:
        return self._left + self._width * (math.log(value) - self._low) / self._span
