"""Schedule search for a composed file: variants are answered one by one, and the judge's timing decides.

Every answer is judged and timed as usual. The fastest is kept in the user's cache by GPU and problem, and is
the first answer of later runs.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from agent.compose import composed_with
from agent.config import Settings
from agent.protocols import Provider
from agent.providers import composed
from agent.records import Completion, Evaluated, Event, Measurement, Prompt

Change = Mapping[str, int]
"""Change to the default schedule of every kernel: exponents of two by parameter name.

The parameter `forms` selects another implementation of products, such as our own for 16-bit matrices.
"""
FOLDER = "schedules"
MOVES: tuple[Change, ...] = (
    {"unroll": 1}, {"vectors": 1}, {"threads": 1}, {"vectors": 2}, {"threads": -1}, {"unroll": -1},
    {"forms": 1},
)  # fmt: skip
"""Changes that are tried, each applied to the best so far."""


def tuned(provider: Provider, settings: Settings, gpu: str) -> Provider:
    """Return a provider that uses the cached schedule for this GPU, if `provider` is a composed file.

    Other providers are returned unchanged. Further schedules are tried if the run has a time limit
    (`--max-time`).
    """
    if not isinstance(provider, composed.Composed):
        return provider
    problem, arch, own_products = provider.about
    name = re.sub(r"\W+", "-", gpu)
    key = hashlib.sha256(f"{provider.source}\0{problem.source}".encode()).hexdigest()[:16]
    place = settings.cache_dir / FOLDER / f"{name}-{key}.json"
    make = partial(composed_with, problem, arch, own_products)
    if not place.is_file() and settings.max_time is None:
        return provider
    return Tuning(make, place, goes_on=settings.max_time is not None)


class Tuning:
    """A provider that tunes schedules by the timing of its answers, of which there are at most `answers`."""

    name = composed.Composed.name

    def __init__(self, make: Callable[[Sequence[Change]], list[str]], place: Path, goes_on: bool) -> None:
        """Load the best known schedule and compose its file.

        `make` composes a file for each change. `place` is the cache file with the best change and the changes
        left to try. With `goes_on`, further changes are tried. Raises Declined if no file can be composed.
        """
        self._make, self._place, self._goes_on = make, place, goes_on
        self._lock = threading.Lock()
        self._best, left = _kept(place)
        self._texts: dict[str, str] = {}
        self._given: set[str] = set()
        first, *others = self._written([self._best, *(_together(self._best, move) for move in left)])
        self._left = [move for move, text in zip(left, others, strict=True) if text != first and goes_on]
        self._measured: Measurement | None = None
        self.answers = 1 + len(self._left)

    def complete(self, prompt: Prompt) -> Completion:
        """Return the best known file first, then each variant, then the best again once none is left."""
        with self._lock:
            change = self._best
            while self._given and self._left:
                change = _together(self._best, self._left.pop(0))
                if self._written([change])[0].strip() not in self._given:
                    break
            text = self._written([change])[0]
            self._given.add(text.strip())
        return composed.completion(text)

    def hear(self, event: Event) -> None:
        """Record the time of an answer and update the cache file while schedules are tried."""
        if not self._goes_on or not isinstance(event, Evaluated):
            return
        with self._lock:
            source = event.attempt.candidate.source.strip()
            changes = [json.loads(key) for key, text in self._texts.items() if text.strip() == source]
            measured = event.attempt.evaluation.measurement
            if not changes or measured is None:
                return
            self._given.add(source)
            if measured.beats(self._measured):
                self._best, self._measured = changes[0], measured
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self._place.write_text(json.dumps({"change": self._best, "left": self._left}), encoding="utf-8")

    def _written(self, changes: list[Change]) -> list[str]:
        keys = [json.dumps(change, sort_keys=True) for change in changes]
        missing = [number for number, key in enumerate(keys) if key not in self._texts]
        if missing:
            made = self._make([changes[number] for number in missing])
            self._texts |= {keys[number]: text for number, text in zip(missing, made, strict=True)}
        return [self._texts[key] for key in keys]


def _together(one: Change, other: Change) -> Change:
    """Return the sum of two changes without parameters that cancel out."""
    sums = {name: one.get(name, 0) + other.get(name, 0) for name in (*one, *other)}
    return {name: value for name, value in sums.items() if value}


def _kept(place: Path) -> tuple[Change, list[Change]]:
    """Return the best known change and the changes left to try, from the cache file if it is readable."""
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        return dict(found["change"]), list(found["left"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}, list(MOVES)
