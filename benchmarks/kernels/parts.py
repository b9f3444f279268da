"""Parts of a benchmark by name: what each measures goes out as JSON, a line for each thing."""

import json
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from agent.kernels.benching import Clock

Part = Callable[[], Iterable[dict[str, Any]]]


def run(parts: Mapping[str, Part], names: Sequence[str]) -> None:
    """Runs the parts named, in that order; ends the program where there is no such part."""
    unknown = [name for name in names if name not in parts]
    if unknown or not names:
        sys.exit(f"no part {', '.join(unknown) or 'is named'}; there are: {', '.join(parts)}")
    for name in names:
        started = time.monotonic()
        for line in parts[name]():
            print(json.dumps({"part": name, **line}), flush=True)
        print(json.dumps({"part": name, "seconds": round(time.monotonic() - started, 1)}), flush=True)


def spans(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median time of each call in ms, each queued behind a cold L2, in rounds of random order."""
    milliseconds = Clock()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name in random.sample(list(calls), len(calls)):
            taken[name].append(milliseconds(calls[name]))
    return {name: median(each) for name, each in taken.items()}
