"""Every command of the reference's process, with its fields; `agent.sandbox.messages` writes and reads them.

The one source for both sides: the judge's builds these records (`agent.harness.messages.commands`), and the
oracle answers nothing else. Each has a handler `do_...` of its name, in one of the components that
`agent.harness.oracle.server` lists, which says what it does. A `stem` begins the names of the files that
tensors pass through; a seed is of at most 62 bits.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from agent.harness.messages.where_commands import Show, Where


@dataclass(frozen=True)
class Parameters:
    """`wide`: some have other signs and sizes, whenever this seed comes again; see `truth.perturbation`.

    `as_files`: they pass as files, for another process than the one that is judged.
    """

    seed: int
    stem: str
    wide: bool = False
    as_files: bool = False


@dataclass(frozen=True)
class Draw:
    seed: int
    stem: str
    family: str | None = None
    in_place: bool = False
    as_files: bool = False


@dataclass(frozen=True)
class Again:
    stem: str


@dataclass(frozen=True)
class TimedClaims:
    """Type and device of each output, as the candidate's process says; none for those of a row."""

    types: list[str] | None = None
    devices: list[str] | None = None


@dataclass(frozen=True)
class Claims:
    """What the candidate's process says of one call, and where its tensors came back.

    `written_bands` where they pass as files, `gone` where they pass through memory; see `worker_answers`.
    """

    overlaps: list[list[str]]
    types: list[str]
    devices: list[str]
    written_bands: list[int] | None
    gone: list[int] | None
    sent_back: str


@dataclass(frozen=True)
class Judge:
    outputs: dict[str, Any]
    claims: Claims
    repeat: bool


@dataclass(frozen=True)
class Fits:
    outputs: dict[str, Any]


@dataclass(frozen=True)
class FitsOther:
    """Names other inputs than those of the present draw."""

    seed: int
    family: str | None


@dataclass(frozen=True)
class Explain:
    source: str
    finding: dict[str, Any]


@dataclass(frozen=True)
class Map:
    pass


@dataclass(frozen=True)
class Narrow:
    outputs: dict[str, Any]


@dataclass(frozen=True)
class Probe:
    seed: int


@dataclass(frozen=True)
class Duration:
    pass


@dataclass(frozen=True)
class Trace:
    source: str


@dataclass(frozen=True)
class Rest:
    pass


@dataclass(frozen=True)
class Health:
    pass


@dataclass(frozen=True)
class Environment:
    pass


@dataclass(frozen=True)
class Ways:
    """Name, shape and dtype of what ModelNew holds, and whether it is a parameter."""

    held: list[tuple[str, tuple[int, ...], str, bool]]


@dataclass(frozen=True)
class Name:
    names: dict[str, str]


@dataclass(frozen=True)
class CompareFiles:
    outputs: dict[str, Any]


@dataclass(frozen=True)
class Gradients:
    seed: int
    stem: str


@dataclass(frozen=True)
class JudgeGradients:
    gradients: dict[str, Any]


@dataclass(frozen=True)
class Variants:
    seed: int
    kinds: list[Literal["layout", "batch", "size", "rank", "dtype"]]


@dataclass(frozen=True)
class Variant:
    number: int
    stem: str


@dataclass(frozen=True)
class ComparisonKernels:
    """From here on large outputs are compared by the kernels in this file."""

    file: str


@dataclass(frozen=True)
class WarmUp:
    """A draw that nothing comes of; `compiled`: the reference under torch.compile instead."""

    seed: int
    compiled: bool


@dataclass(frozen=True)
class ExpectBaselines:
    """What they need besides the GPU is made ready on the way."""


@dataclass(frozen=True)
class Baselines:
    """`more`: what is timed beside eager, torch.compile and, below so many milliseconds, a CUDA graph."""

    compiled: bool
    launch_bound_ms: float
    more: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Refresh:
    seed: int


@dataclass(frozen=True)
class Timed:
    """`flushes`: as for the worker's command of this name."""

    what: str
    flushes: int


@dataclass(frozen=True)
class Slope:
    what: str
    few: int
    many: int


@dataclass(frozen=True)
class Take:
    pass


@dataclass(frozen=True)
class Alone:
    """For each baseline the two numbers of calls of its slope, and from how many milliseconds of a call on
    that slope tells nothing.
    """

    rows: dict[str, tuple[int, int]]
    enough_ms: dict[str, float]


@dataclass(frozen=True)
class Launches:
    what: str


@dataclass(frozen=True)
class RoomForRow:
    least: int
    most: int


@dataclass(frozen=True)
class FillRow:
    seeds: list[int]


@dataclass(frozen=True)
class TakeOfRow:
    number: int


@dataclass(frozen=True)
class Recall:
    seed: int


@dataclass(frozen=True)
class Glance:
    pass


@dataclass(frozen=True)
class Card:
    pass


@dataclass(frozen=True)
class JudgeTaken:
    """Outputs of a row have their places, so that no description comes with them."""

    outputs: dict[str, Any] | None
    claims: TimedClaims


Command = (
    Parameters | Draw | Again | Judge | Fits | FitsOther | Explain | Show | Where | Map | Narrow | Probe
    | Duration | Trace | Rest | Health | Environment | Ways | Name | CompareFiles | Gradients | JudgeGradients
    | Variants | Variant | ComparisonKernels | WarmUp | ExpectBaselines | Baselines | Refresh | Timed
    | Slope | Take | Alone | Launches | RoomForRow | FillRow | TakeOfRow | Recall | Glance | Card | JudgeTaken
)  # fmt: skip
