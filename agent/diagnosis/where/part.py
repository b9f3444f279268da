"""A part of a recorded run: the calls that lead to some of its values, or from values known to be right."""

from collections.abc import Mapping
from typing import Any

from agent.diagnosis.graph import tensors
from agent.diagnosis.tape import Tape


class Part(Tape):
    """The calls of a run that lead from inputs, parameters and given tensors to `result`.

    `result` is one or several of the run's tensors. `given` maps the `id` of each given tensor to its name in
    the part.
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


def cut_part(tape: Tape, result: Any, given: Mapping[int, str]) -> Tape | None:
    """Return the part of a run, or None if the run writes in place.

    With in-place writes the calls alone do not define the part.
    """
    return None if tape.in_place else Part(tape, result, given)


def _has_no_python() -> Any:
    raise RuntimeError("a part of a run has no Python of its own")
