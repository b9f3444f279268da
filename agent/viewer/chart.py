"""Geometry of a run's chart: the position of each attempt, in units of the drawing.

With measured times, the y axis shows milliseconds on a logarithmic scale, with the reference's own times and
the roofline's floor. Without measured times, as on the emulator, it shows the level that each attempt
reached, from no code to verified. `templates/chart.html` draws it. This module measures and estimates
nothing.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent.records import BASELINES, Measurement, Status
from agent.store.history import Entry
from agent.viewer import words

WIDTH, LEFT, RIGHT, TOP = 960, 132, 172, 18
ROW = 26
TIMES_HEIGHT = 200
LINE = 14
"""Height of one line of text, in units of the drawing."""
LEVELS = (
    ("verified", "verified"),
    ("incorrect", "wrong result"),
    ("runtime_error", "failed running"),
    ("build_error", "did not build"),
    ("rejected", "refused unbuilt"),
    ("unsupported", "not judged"),
    ("no_code", "no code"),
)
"""Levels that an answer can reach, highest first, each with its label."""
_ALIKE = {"timeout": "runtime_error"}
_KINDS = {"torch.compile": "compile"}


class Point(NamedTuple):
    """One attempt, or one answer without code. `low` and `high` are the positions of its p80 and p20."""

    anchor: str
    name: str
    status: str
    x: float
    y: float
    best: bool = False
    low: float | None = None
    high: float | None = None


class Rule(NamedTuple):
    """A horizontal line with its label: a baseline, the floor, a tick or a level."""

    kind: str
    y: float
    words: str
    words_y: float
    """Position of the label: beside its line, or below the label of a line that is too close."""


class Chart(NamedTuple):
    title: str
    description: str
    width: int
    height: float
    left: int
    right: float
    points: tuple[Point, ...]
    rules: tuple[Rule, ...]
    path: str
    """SVG path that joins the attempts in order, or only the measured ones."""


class Step(NamedTuple):
    """Data of one attempt or round that the chart shows."""

    anchor: str
    name: str
    status: str
    entry: Entry | None = None


def draw(steps: Sequence[Step], best: int | None, floor_ms: float | None) -> Chart | None:
    """Return the chart of a run, or None if nothing was judged yet."""
    if not steps:
        return None
    measured = [step for step in steps if _measurement(step) is not None]
    return _times(steps, best, floor_ms) if measured else _verdicts(steps, best)


def _verdicts(steps: Sequence[Step], best: int | None) -> Chart:
    rules, at = _levels(steps, TOP + ROW / 2, always=("verified",))
    points = tuple(
        Point(step.anchor, step.name, step.status, x, at[_level(step)], _is_best(step, best))
        for step, x in zip(steps, _columns(len(steps)), strict=True)
    )
    story = "; ".join(f"{step.name}: {words.status(step.status)}" for step in steps[:40])
    return Chart(
        "How far each attempt came",
        f"No times were measured. {story}.",
        WIDTH,
        TOP + ROW * len(rules) + 8,
        LEFT,
        WIDTH - 16,
        points,
        rules,
        _path(points),
    )


def _times(steps: Sequence[Step], best: int | None, floor_ms: float | None) -> Chart:
    known = [m for step in steps if (m := _measurement(step)) is not None]
    lines = dict(_baselines(known))
    if floor_ms is not None:
        lines["floor"] = floor_ms
    values = [*lines.values(), *(t for m in known for t in (m.candidate_ms.p20, m.candidate_ms.p80))]
    low, high = math.log(min(values) / 1.15), math.log(max(values) * 1.15)

    def y(ms: float) -> float:
        return TOP + TIMES_HEIGHT * (high - math.log(ms)) / (high - low)

    failed = [step for step in steps if _measurement(step) is None]
    rules = [Rule("tick", y(ms), f"{ms:g} ms", y(ms)) for ms in _ticks(math.exp(low), math.exp(high))]
    rules += _spaced(
        Rule(_KINDS.get(name, name), y(ms), f"{name} {words.milliseconds(ms)}", y(ms))
        for name, ms in lines.items()
    )
    below, at = _levels(failed, TOP + TIMES_HEIGHT + ROW, always=())
    points = []
    for step, x in zip(steps, _columns(len(steps), RIGHT), strict=True):
        found, is_best = _measurement(step), _is_best(step, best)
        if found is None:
            points.append(Point(step.anchor, step.name, step.status, x, at[_level(step)]))
            continue
        time = found.candidate_ms
        name = f"{step.name}, {words.spread(time)}"
        points.append(
            Point(step.anchor, name, step.status, x, y(time.p50), is_best, y(time.p80), y(time.p20))
        )
    story = "; ".join(point.name for point in points if point.low is not None)
    against = ", ".join(f"{name} {words.milliseconds(ms)}" for name, ms in lines.items())
    return Chart(
        f"Time of each attempt on {known[-1].gpu}",
        f"{story}. Against {against or 'nothing measured'}.",
        WIDTH,
        TOP + TIMES_HEIGHT + ROW * len(below) + (ROW if below else 12),
        LEFT,
        WIDTH - RIGHT,
        tuple(points),
        (*rules, *below),
        _path([point for point in points if point.low is not None]),
    )


def _baselines(known: Sequence[Measurement]) -> Iterator[tuple[str, float]]:
    """Yield each baseline with its time, the median over the attempts that were timed beside it."""
    for name in BASELINES:
        medians = [times.p50 for m in known if (times := m.baselines.get(name)) is not None]
        if medians:
            yield ("torch.compile" if name == "compile" else name), statistics.median(medians)


def _levels(
    steps: Sequence[Step], top: float, always: tuple[str, ...]
) -> tuple[tuple[Rule, ...], dict[str, float]]:
    """Return a line for each level that an attempt reached, and the position of each level."""
    seen = {_level(step) for step in steps} | set(always)
    there = [(level, text) for level, text in LEVELS if level in seen]
    at = {level: top + ROW * index for index, (level, _) in enumerate(there)}
    return tuple(Rule("level", at[level], text, at[level]) for level, text in there), at


def _spaced(rules: Iterable[Rule]) -> list[Rule]:
    """Sort the rules from top to bottom and move labels apart so that they can be read."""
    spaced: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: rule.y):
        least = spaced[-1].words_y + LINE if spaced else 0.0
        spaced.append(rule._replace(words_y=max(rule.y, least)))
    return spaced


def _ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in (1, 1.5, 2, 3, 5, 7)]
    return [tick for tick in ticks if low <= tick <= high]


def _columns(count: int, right: int = 16) -> list[float]:
    """Return the centers of `count` columns. A few columns stay at the left instead of being spread out."""
    step = min((WIDTH - LEFT - right) / count, 84)
    return [LEFT + step * (index + 0.5) for index in range(count)]


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{'L' if index else 'M'}{p.x:.1f} {p.y:.1f}" for index, p in enumerate(points))


def _level(step: Step) -> str:
    return _ALIKE.get(step.status, step.status)


def _is_best(step: Step, best: int | None) -> bool:
    return step.entry is not None and step.entry.number == best


def _measurement(step: Step) -> Measurement | None:
    if step.entry is None or step.entry.attempt.evaluation.status is not Status.VERIFIED:
        return None
    return step.entry.attempt.evaluation.measurement
