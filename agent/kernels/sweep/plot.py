"""Picture docs/kernels-sweep.svg, drawn from the measured rows.

Write it with `python -m agent.kernels.sweep.plot > docs/kernels-sweep.svg`. Each kernel is a line, lowest
ratio first. Each row of the sweep is a dot at its ratio, on a logarithmic scale, hollow if its shape is held
back.
"""

import math
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from agent.kernels import sources
from agent.kernels.sweep.page import FOLDER, measured
from agent.kernels.sweep.rows import ENOUGH, Row

LEFT, RIGHT, STEP, TOP = 250.0, 860.0, 30.0, 60.0
"""Layout in pixels: start and end of the scale, height of a line, and space above the first line."""
LOW, HIGH = 0.5, 8.0
"""Ratios at the ends of the scale; ratios beyond are drawn at the ends."""
NAME_LETTERS = 34


class Dot(NamedTuple):
    """One row of the sweep, drawn as a dot."""

    x: float
    y: float
    words: str
    is_held_back: bool
    is_behind: bool


class Line(NamedTuple):
    """One kernel, drawn as a line of dots."""

    kernel: str
    mean: str
    y: float
    dots: list[Dot]


def render(folder: Path = FOLDER) -> str:
    """Return the picture as SVG."""
    found, _ = measured(folder)
    of_each = {kernel: [row for row in found if row.kernel == kernel] for kernel in sources.NAMES}
    ordered = sorted((kernel for kernel in of_each if of_each[kernel]), key=lambda one: of_each[one][0].ratio)
    lines = [_line(kernel, of_each[kernel], TOP + STEP * place) for place, kernel in enumerate(ordered)]
    ticks = [(f"{ratio:g}", _x(ratio)) for ratio in (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)]
    template = Environment(
        loader=PackageLoader("agent.kernels", "sweep"), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, lstrip_blocks=True,
    ).get_template("plot.svg.j2")  # fmt: skip
    height = TOP + STEP * max(len(lines), 1)
    gpus = sorted({row.gpu for row in found})
    return template.render(lines=lines, ticks=ticks, one=_x(1.0), top=TOP, height=height, gpus=gpus) + "\n"


def _line(kernel: str, found: list[Row], y: float) -> Line:
    # The vertical offset keeps dots of neighbouring ratios apart.
    dots = [
        Dot(_x(row.ratio), y + 3.0 * (place % 5 - 2), f"{row.ratio:.2f} {row.name}", row.is_held_back,
            row.ratio < ENOUGH)
        for place, row in enumerate(found)
    ]  # fmt: skip
    short = kernel if len(kernel) <= NAME_LETTERS else f"{kernel[: NAME_LETTERS - 1]}…"
    return Line(short, f"{geometric_mean(row.ratio for row in found):.2f}", y, dots)


def _x(ratio: float) -> float:
    inside = min(max(ratio, LOW), HIGH)
    return round(LEFT + (RIGHT - LEFT) * math.log2(inside / LOW) / math.log2(HIGH / LOW), 1)


if __name__ == "__main__":
    sys.stdout.write(render())
