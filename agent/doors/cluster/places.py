"""Where judges can be on a cluster: a place for each GPU, or for each machine's processors."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, Protocol

PROCESSORS_EACH = 4
"""Of one candidate at a time: it is built, judged and waits by turns."""
SLOTS_OF_A_GPU = 4
"""Candidates at a time: they take turns on the GPU, and are built beside."""


Key = tuple[str, int]
"""Of a place: its machine and the number of its GPU."""


class Lost(Exception):
    """Nothing is heard of a judge any more."""


class Machine(NamedTuple):
    id: str
    name: str
    processors: int
    gpus: int


class Place(NamedTuple):
    """What one keeper takes of its machine."""

    machine: Machine
    number: int
    """Of the GPU."""
    processors: int
    gpus: int
    slots: int
    """Candidates that are judged there at the same time."""

    @property
    def name(self) -> str:
        return f"{self.machine.name} GPU {self.number}" if self.gpus else self.machine.name

    @property
    def key(self) -> Key:
        return self.machine.id, self.number


class Keeping(Protocol):
    """A keeper, wherever it is."""

    def ask(self, method: Literal["hello", "judge"], cancelled: Callable[[], bool], *given: str) -> str:
        """Raises Lost, and Interrupted once cancelled."""
        ...

    def end(self) -> None: ...


class Machines(Protocol):
    """A cluster."""

    def machines(self) -> tuple[Machine, ...]:
        """Raises Lost where nobody says so at the moment."""
        ...

    def keeper(self, place: Place, plan: str) -> Keeping: ...
    def close(self) -> None: ...


def executor(
    wanted: Literal["auto", "cuda", "emulator"], machines: Iterable[Machine]
) -> Literal["cuda", "emulator"]:
    """What `auto` means on these machines."""
    if wanted != "auto":
        return wanted
    return "cuda" if any(machine.gpus for machine in machines) else "emulator"


def places(name: Literal["cuda", "emulator"], machines: Iterable[Machine]) -> Iterator[Place]:
    """Every place for judges of this kind."""
    for machine in machines:
        if name == "cuda":
            each = machine.processors // machine.gpus if machine.gpus else 0
            slots = max(1, min(SLOTS_OF_A_GPU, each // PROCESSORS_EACH))
            taken = min(each, slots * PROCESSORS_EACH)
            yield from (Place(machine, number, taken, 1, slots) for number in range(machine.gpus))
        elif machine.processors:
            slots = max(1, machine.processors // PROCESSORS_EACH)
            yield Place(machine, 0, min(machine.processors, slots * PROCESSORS_EACH), 0, slots)
