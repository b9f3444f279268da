"""Every command of the candidate's process, with its fields; `messages` writes and reads them.

Standalone: the worker runs copies of this file and of `agent.sandbox.messages`. This file is the one source
for both sides: the judge builds these records (`agent.harness.messages.commands`), and the worker accepts
nothing else. Each command has a handler `do_...` in `worker`, which documents it. `worker_answers` declares
the possible answers.
"""

from dataclasses import dataclass
from typing import Any, Literal

ONES = 0xFFFFFFFF
"""Word that is NaN as a floating-point number and -1 as an integer."""


@dataclass(frozen=True)
class Load:
    """Import the candidate as module `name`; `ahead`: the GPU context may be initialised meanwhile."""

    name: str
    ahead: bool


@dataclass(frozen=True)
class Instance:
    """Make an instance from descriptions of the constructor's arguments and of the parameters; see `wire`.

    `keeps_former`: the previous instance stays, for `Former`.
    """

    init_inputs: dict[str, Any]
    state: dict[str, Any]
    dtype: str | None = None
    keeps_former: bool = False


@dataclass(frozen=True)
class Former:
    """Exchange the current instance for the previous one; `ends`: exchange back and release that one."""

    ends: bool


@dataclass(frozen=True)
class Region:
    """Byte range of shared memory."""

    begin: int
    end: int


@dataclass(frozen=True)
class Conditions:
    """Conditions on the emulator: contents of fresh memory and order of threads, as kw_draw takes them.

    `stream` selects which of two streams is torch's current one. `surroundings` applies the rest.
    """

    memory: int
    order: int
    seed: int
    stream: int
    torch_threads: int = 1
    gradients: bool = False


@dataclass(frozen=True)
class Call:
    """Call forward. The regions receive copies in shared memory; they are None for exchange by files.

    `state` and `state_bytes`: name and size of each parameter and buffer. `stateful`: the reference writes to
    some of them, so each call begins with their initial contents. `send_back`: prefix of the files for
    everything that had to stay unchanged. `fresh`: the word that fills free memory of a GPU. `may_overlap`:
    elements of the reference's own outputs share memory. `may_alias`: those outputs share memory with its
    inputs or parameters.
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
    may_alias: bool = True
    outputs: Region | None = None
    earlier: Region | None = None
    parameters: Region | None = None


@dataclass(frozen=True)
class Further:
    """Make up to `times` more calls on the current inputs, within processor time and memory for the outputs.

    `host_only`: on the emulator, kernels do not run, and nothing can be computed afterwards. A candidate that
    keeps what it returns then gets the longer limits. `checked`: memory accesses are checked.
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
    """Make a call outside the protocol; `operators` ignores `stem`, and `gradients` needs the last two."""

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
    """Time one call after `flushes` overwrites of the L2 cache, during which the host can launch it."""

    flushes: int


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
"""Only key of the answer to an invalid command, with the reason: a fault of the judge's side."""
