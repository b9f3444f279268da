"""Commands of the reference's process, with their fields; `agent.sandbox.messages` writes and reads them.

This is the single source for both sides. The judge builds these records (`agent.harness.messages.commands`),
and the oracle answers nothing else. Each record has a handler `do_...` of its name, in one of the components
that `agent.harness.oracle.server` lists, which documents the command. A `stem` begins the names of the files
that hold tensors. A seed has at most 62 bits.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from agent.harness.messages.where_commands import Show, Where


@dataclass(frozen=True)
class Parameters:
    """Draw perturbed parameters from a seed.

    With `wide`, some have other signs and sizes, each time this seed comes again; see `truth.perturbation`.
    With `as_files`, they are passed as files, for another process than the judged one.
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
    """Type and device of each output, as claimed by the candidate's process. None for outputs of a row."""

    types: list[str] | None = None
    devices: list[str] | None = None


@dataclass(frozen=True)
class Claims:
    """Claims of the candidate's process about one call, and where its tensors came back.

    `written_bands` is set where tensors pass as files, `gone` where they pass through memory; see
    `worker_answers`.
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
    """Ask whether the reference's output for other inputs fits the present draw."""

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
    """Name, shape and dtype of each tensor in ModelNew, and True if it is a parameter."""

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
    """Compare large outputs from now on with the kernels in this file."""

    file: str


@dataclass(frozen=True)
class WarmUp:
    """Compute a draw and discard it. With `compiled`, run the reference under torch.compile instead."""

    seed: int
    compiled: bool


@dataclass(frozen=True)
class ExpectBaselines:
    """Prepare what the baselines need besides the GPU, in the background."""


@dataclass(frozen=True)
class Baselines:
    """Prepare the baselines.

    `more` lists baselines beside eager and torch.compile. Below `launch_bound_ms` milliseconds, a CUDA graph
    is prepared as well.
    """

    compiled: bool
    launch_bound_ms: float
    more: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Refresh:
    seed: int


@dataclass(frozen=True)
class Timed:
    """`flushes` has the meaning of the field in the worker's command of this name."""

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
    """Time the baselines after the candidate's process has ended.

    `rows` holds the two numbers of calls for the slope of each baseline. `enough_ms` holds the milliseconds
    per call from which the slope is not measured.
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
    """Judge outputs that were taken. Outputs of a row have fixed places and come without a description."""

    outputs: dict[str, Any] | None
    claims: TimedClaims


Command = (
    Parameters | Draw | Again | Judge | Fits | FitsOther | Explain | Show | Where | Map | Narrow | Probe
    | Duration | Trace | Rest | Health | Environment | Ways | Name | CompareFiles | Gradients | JudgeGradients
    | Variants | Variant | ComparisonKernels | WarmUp | ExpectBaselines | Baselines | Refresh | Timed
    | Slope | Take | Alone | Launches | RoomForRow | FillRow | TakeOfRow | Recall | Glance | Card | JudgeTaken
)  # fmt: skip
