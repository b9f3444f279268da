"""The composed file with other schedules, one after the other: the judge's clock says which is the fastest.

Every answer is judged and timed like any other. The fastest is kept in the user's cache, by GPU and problem,
and is the first answer of later runs.
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
"""Of every kernel's schedule against the rule: powers of two, by the names of its numbers; `forms`: products
take the other form that they have."""
FOLDER = "schedules"
MOVES: tuple[Change, ...] = (
    {"unroll": 1}, {"vectors": 1}, {"threads": 1}, {"vectors": 2}, {"threads": -1}, {"unroll": -1},
    {"forms": 1},
)  # fmt: skip
"""What is tried, each from the best so far."""


def tuned(provider: Provider, settings: Settings, gpu: str) -> Provider:
    """A composed file's provider for a GPU with what is known of schedules there; any other as it is.

    Further schedules are tried where the run has a limit of time (`--max-time`).
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
    """A Provider that hears what came of its answers; `answers`: how many it has at most."""

    name = composed.Composed.name

    def __init__(self, make: Callable[[Sequence[Change]], list[str]], place: Path, goes_on: bool) -> None:
        """`make`: the file with each change; `place`: where the best is kept, with what is left to be tried.

        Raises Declined where nothing is composed.
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
        """The best file that is known, then each other one; the best again where nothing is left."""
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
        """Takes in how fast an answer was, and keeps it where others are tried."""
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
    """Both changes; none of a number whose changes cancel out."""
    sums = {name: one.get(name, 0) + other.get(name, 0) for name in (*one, *other)}
    return {name: value for name, value in sums.items() if value}


def _kept(place: Path) -> tuple[Change, list[Change]]:
    """The best change that is known, and what is left to be tried."""
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        return dict(found["change"]), list(found["left"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}, list(MOVES)
