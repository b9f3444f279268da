"""A part of a recorded run: what leads to some of its values, or from values that are known to be right."""

from collections.abc import Mapping
from typing import Any

from agent.diagnosis.graph import tensors
from agent.diagnosis.tape import Tape


class Part(Tape):
    """Of a run only what leads from inputs, parameters and tensors `given` by `id` to `result`.

    `result` is one or several of the run's tensors; the names of those given are what they are called here.
    """

    def __init__(self, tape: Tape, result: Any, given: Mapping[int, str]) -> None:
        needed: set[int] = set()
        waiting = tensors(result)
        while waiting:
            tensor = waiting.pop()
            maker = tape.maker(tensor) if id(tensor) not in given else None
            if maker is not None and maker.number not in needed:
                needed.add(maker.number)
                waiting += tensors(maker.given)
        calls = [tape.calls[number]._replace(number=place) for place, number in enumerate(sorted(needed))]
        self._hold(_has_no_python, {**tape._names, **given}, calls, result, {})


def of(tape: Tape, result: Any, given: Mapping[int, str]) -> Tape | None:
    """None where something is written in place: what a part of that is, its calls alone do not say."""
    return None if tape.in_place else Part(tape, result, given)


def _has_no_python() -> Any:
    raise RuntimeError("a part of a run has no Python of its own")
