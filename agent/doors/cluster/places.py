"""Places for judges on a cluster: one for each GPU, or for each machine's processors."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple, Protocol

PROCESSORS_EACH = 4
"""Processors per candidate, which by turns is built, is judged and waits."""
SLOTS_OF_A_GPU = 4
"""Maximum candidates per GPU at a time: they take turns on the GPU while others are built."""


Key = tuple[str, int]
"""Key of a place: its machine and the number of its GPU."""


class Lost(Exception):
    """A judge that is no longer reachable."""


class Machine(NamedTuple):
    id: str
    name: str
    processors: int
    gpus: int


class Place(NamedTuple):
    """Share of a machine that one keeper takes."""

    machine: Machine
    number: int
    """Index of the GPU on its machine."""
    processors: int
    gpus: int
    slots: int
    """Maximum number of candidates judged at this place at the same time."""

    @property
    def name(self) -> str:
        return f"{self.machine.name} GPU {self.number}" if self.gpus else self.machine.name

    @property
    def key(self) -> Key:
        return self.machine.id, self.number


class Keeping(Protocol):
    """Interface to a keeper of judges, in this process or on another machine."""

    def ask(self, method: Literal["hello", "judge"], cancelled: Callable[[], bool], *given: str) -> str:
        """Call a method of the keeper. Raises Lost, and Interrupted once cancelled."""
        ...

    def end(self) -> None: ...


class Machines(Protocol):
    """Interface to the machines of a cluster."""

    def machines(self) -> tuple[Machine, ...]:
        """Return the machines. Raises Lost if the list is unavailable at the moment."""
        ...

    def keeper(self, place: Place, plan: str) -> Keeping: ...
    def close(self) -> None: ...


def executor(
    wanted: Literal["auto", "cuda", "emulator"], machines: Iterable[Machine]
) -> Literal["cuda", "emulator"]:
    """Resolve `auto` to the executor for these machines."""
    if wanted != "auto":
        return wanted
    return "cuda" if any(machine.gpus for machine in machines) else "emulator"


def places(name: Literal["cuda", "emulator"], machines: Iterable[Machine]) -> Iterator[Place]:
    """Yield every place for judges with this executor."""
    for machine in machines:
        if name == "cuda":
            each = machine.processors // machine.gpus if machine.gpus else 0
            slots = max(1, min(SLOTS_OF_A_GPU, each // PROCESSORS_EACH))
            taken = min(each, slots * PROCESSORS_EACH)
            yield from (Place(machine, number, taken, 1, slots) for number in range(machine.gpus))
        elif machine.processors:
            slots = max(1, machine.processors // PROCESSORS_EACH)
            yield Place(machine, 0, min(machine.processors, slots * PROCESSORS_EACH), 0, slots)
