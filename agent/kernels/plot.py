"""Picture docs/kernels.svg, drawn from the kernel.json files.

Write it with `python -m agent.kernels.plot > docs/kernels.svg`. Each kernel has a row for its reference shape
and one for the training step at that shape. A row shows the floor (the roofline's time), the
kernel, torch.compile and eager, as multiples of the kernel's own time on a logarithmic scale.
"""

import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from agent.kernels import manifest, sources
from agent.kernels.manifest import Manifest

LEFT, RIGHT, STEP, TOP = 316.0, 640.0, 34.0, 64.0
"""Layout in pixels: start and end of the scale, height of a row, and space above the first row."""
MOST_TICKS = 9
SIDES = ("floor", "kernel", "torch.compile", "eager")


class Mark(NamedTuple):
    """Time of one side (floor, kernel, torch.compile or eager) in a row."""

    side: str
    x: float
    ms: float


class Row(NamedTuple):
    """One case of one kernel, drawn as a row."""

    kernel: str
    words: str
    y: float
    marks: list[Mark]


class Tick(NamedTuple):
    """Labelled multiple of the kernel's time on the scale."""

    label: str
    x: float


def render() -> str:
    """Return the picture as SVG; cases without a time of torch are left out."""
    found = [case for name in sources.NAMES for case in _cases(manifest.load(name))]
    multiples = [ms / times["kernel"] for _, _, times in found for ms in times.values()]
    low = 2.0 ** math.floor(math.log2(min(multiples, default=0.5)))
    high = 2.0 ** math.ceil(math.log2(max(multiples, default=2.0)))

    def x(multiple: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * math.log2(multiple / low) / math.log2(high / low), 1)

    rows = []
    for place, (kernel, words, times) in enumerate(found):
        marks = [Mark(side, x(ms / times["kernel"]), ms) for side, ms in times.items()]
        rows.append(Row(kernel, words, TOP + STEP * place, marks))
    lowest, highest = round(math.log2(low)), round(math.log2(high))
    step = 1 + (highest - lowest) // MOST_TICKS
    ticks = [
        Tick(f"1/{2**-power}" if power < 0 else str(2**power), x(2.0**power))
        for power in range(lowest, highest + 1)
        if power % step == 0
    ]
    template = Environment(
        loader=PackageLoader("agent.kernels", "."), undefined=StrictUndefined, autoescape=True,
        trim_blocks=True, lstrip_blocks=True,
    ).get_template("plot.svg.j2")  # fmt: skip
    gpus = sorted({one.gpu for name in sources.NAMES for one in manifest.load(name).measured})
    height = TOP + STEP * len(rows)
    return template.render(rows=rows, ticks=ticks, sides=SIDES, gpus=gpus, top=TOP, height=height) + "\n"


def _cases(known: Manifest) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yield name, description and milliseconds of the kernel's first case, then of its training step.

    The second case is the training step, and left out if it is not one.
    """
    for place, one in enumerate(known.measured[:2]):
        trains = "backward" in one.setting
        if one.compile_ms is None or one.eager_ms is None or (place == 1 and not trains):
            continue
        times = {
            "kernel": one.candidate_ms.p50,
            "torch.compile": one.compile_ms.p50,
            "eager": one.eager_ms.p50,
        }
        floor = {} if one.roofline_fraction is None else {"floor": times["kernel"] * one.roofline_fraction}
        shape = "×".join(map(str, one.shape))
        yield known.name, f"{shape} {one.dtype}{', training step' if trains else ''}", floor | times


if __name__ == "__main__":
    sys.stdout.write(render())
