"""Every command of the candidate's process, with its fields; `messages` writes and reads them.

Standalone: the worker runs copies of this file and of `agent.sandbox.messages`. The one source for both
sides: the judge's builds these records (`agent.harness.messages.commands`), and the worker answers nothing
else. Each has a handler `do_...` of its name in `worker`, which says what it does. What may be answered is in
`worker_answers`.
"""

from dataclasses import dataclass
from typing import Any, Literal

ONES = 0xFFFFFFFF
"""NaN as floating-point numbers, -1 as integers."""


@dataclass(frozen=True)
class Load:
    """`name`: what the module is to be called. `ahead`: its part of the GPU may be made meanwhile."""

    name: str
    ahead: bool


@dataclass(frozen=True)
class Instance:
    """Descriptions of the constructor's arguments and of the parameters; see `wire`. `keeps_former`: the
    instance before stays, for `Former`.
    """

    init_inputs: dict[str, Any]
    state: dict[str, Any]
    dtype: str | None = None
    keeps_former: bool = False


@dataclass(frozen=True)
class Former:
    """Exchange the present instance for the one before; `ends`: exchange back, and release that one."""

    ends: bool


@dataclass(frozen=True)
class Region:
    """Bytes of shared memory."""

    begin: int
    end: int


@dataclass(frozen=True)
class Conditions:
    """For the emulator: what fresh memory holds and in which order threads run, as kw_draw takes them, which
    of two streams is torch's current one, and what `surroundings` varies.
    """

    memory: int
    order: int
    seed: int
    stream: int
    torch_threads: int = 1
    gradients: bool = False


@dataclass(frozen=True)
class Call:
    """The regions are where copies belong that pass through shared memory; None where they pass as files.

    `state` and `state_bytes`: name and size of each parameter and buffer. `stateful`: the reference writes to
    some of them, so that each call begins with what they held at first. `send_back` begins the names of files
    that take what had to stay as it was. `fresh`: the word that free memory of a GPU is full of.
    `may_overlap`: elements of the reference's own outputs share memory.
    """

    inputs: dict[str, Any]
    in_place: bool
    stateful: bool
    state: list[str]
    state_bytes: list[int]
    output_bytes: list[int]
    stem: str
    send_back: str | None
    checked: bool
    keep_all: bool
    conditions: Conditions | None = None
    fresh: int = ONES
    may_overlap: bool = True
    outputs: Region | None = None
    earlier: Region | None = None
    parameters: Region | None = None


@dataclass(frozen=True)
class Further:
    """So many more calls on the present inputs, as far as the processor time and the memory for their outputs
    go. `host_only`: on the emulator, kernels do not run, and nothing can be computed afterwards; a candidate
    that keeps what it returns then gets the longer of both limits. `checked`: memory accesses are.
    """

    times: int
    seconds: float
    held_bytes: int
    host_only: bool
    longer_times: int
    longer_seconds: float
    checked: bool = False


@dataclass(frozen=True)
class Beside:
    """`stem` is of no use to `operators`; `upstream` and `wanted` are for `gradients`."""

    what: Literal["try", "gradients", "traced", "operators"]
    inputs: dict[str, Any]
    stem: str | None = None
    checked: bool = False
    layout: str | None = None
    upstream: dict[str, Any] | None = None
    wanted: list[str] | None = None


@dataclass(frozen=True)
class RealShapes:
    init_inputs: list[Any]
    inputs: list[dict[str, Any]]
    numbers: bool
    host_only: bool


@dataclass(frozen=True)
class Kernels:
    pass


@dataclass(frozen=True)
class Profile:
    pass


@dataclass(frozen=True)
class Ablate:
    output_bytes: list[int]


@dataclass(frozen=True)
class Timed:
    pass


@dataclass(frozen=True)
class Repeated:
    times: int


@dataclass(frozen=True)
class PrepareRow:
    row: dict[str, Any]


@dataclass(frozen=True)
class Row:
    times: int


Command = (
    Load | Instance | Former | Call | Further | Beside | RealShapes | Kernels | Profile | Ablate | Timed
    | Repeated | PrepareRow | Row
)  # fmt: skip
REFUSED = "command_refused"
"""The only key of an answer to what is no command, with the reason: a fault of the judge's side."""
