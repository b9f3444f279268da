"""Commands of the candidate's process, with their fields; `messages` writes and reads them.

Standalone: the worker runs copies of this file and of `agent.sandbox.messages`. The judge builds these
records (`agent.harness.messages.commands`), and the worker refuses any other command. Each command has a
handler in `worker`, named `do_` and the command's name in snake case, which documents it. `worker_answers`
declares the answers.
"""

from dataclasses import dataclass
from typing import Any, Literal

ONES = 0xFFFFFFFF
"""32-bit word of ones: NaN as a floating-point number, -1 as an integer."""


@dataclass(frozen=True)
class Load:
    """Import the candidate as module `name`. With `ahead`, initialise the GPU context during its builds."""

    name: str
    ahead: bool


@dataclass(frozen=True)
class Instance:
    """Make an instance from descriptions of the constructor's arguments and of the parameters; see `wire`.

    With `keeps_former`, the previous instance stays in memory for the command `Former`.
    """

    init_inputs: dict[str, Any]
    state: dict[str, Any]
    dtype: str | None = None
    keeps_former: bool = False


@dataclass(frozen=True)
class Former:
    """Swap the current and the previous instance. With `ends`, then release the previous one."""

    ends: bool


@dataclass(frozen=True)
class Region:
    """Byte range of shared memory."""

    begin: int
    end: int


@dataclass(frozen=True)
class Conditions:
    """Conditions of a call: contents of fresh memory and order of threads, as arguments of `kw_draw`.

    `stream` selects which of two streams is torch's current one. `torch_threads` and `gradients` set torch's
    number of threads and gradient mode (`surroundings`).
    """

    memory: int
    order: int
    seed: int
    stream: int
    torch_threads: int = 1
    gradients: bool = False


@dataclass(frozen=True)
class Call:
    """Call forward.

    `state` and `state_bytes` are the names and sizes of parameters and buffers. If `stateful`, the reference
    writes to some of these, so each call begins with their initial contents. `send_back` is the prefix of
    files for tensors that have to stay unchanged. `fresh` is the word that fills free memory of a GPU.
    `may_overlap` is True if elements of the reference's outputs share memory with each other, and `may_alias`
    if they share it with inputs or parameters. The regions receive copies in shared memory, and are None for
    exchange by files.
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
    """Make up to `times` more calls on the current inputs, within limits of processor time and output bytes.

    With `host_only`, the emulator runs no kernels, and the process cannot compute anything afterwards. A
    candidate that keeps its returned tensors then gets the longer limits. With `checked`, memory accesses are
    checked.
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
    """Make a call that is not part of the protocol.

    `stem` is not used for `operators`; `upstream` and `wanted` are needed for `gradients` only.
    """

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
"""Key of the answer to an invalid command, whose value is the reason; the judge is at fault."""
