"""Commands of the reference's process, with their fields; `agent.sandbox.messages` writes and reads them.

Both sides import these records. The judge builds them (`agent.harness.messages.commands`), and the oracle
refuses any other command. Each record has a handler named `do_` and the record's name in snake case. The
handler documents the command; `agent.harness.oracle.server` lists the classes of handlers. A `stem` is the
prefix of the names of files that hold tensors. A seed has at most 62 bits.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from agent.harness.messages.where_commands import Show, Where


@dataclass(frozen=True)
class Parameters:
    """Draw perturbed parameters from a seed.

    With `wide`, some parameters have other signs and sizes, the same ones for equal seeds; see
    `truth.perturbation`. With `as_files`, they pass as files, for a process other than the judged one.
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
    """Type and device of each output, as claimed by the worker; None for outputs of calls in a row."""

    types: list[str] | None = None
    devices: list[str] | None = None


@dataclass(frozen=True)
class Claims:
    """Claims of the candidate's process about one call.

    `written_bands` is set if tensors pass as files, `gone` if they pass through memory; see
    `worker_answers`. `sent_back` is the prefix of the files in which inputs come back.
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
    """Ask whether the reference's output for the inputs of `seed` is also right for the present draw."""

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
    """Ask for possible assignments of the reference's parameters to ModelNew's tensors.

    `held` has name, shape and dtype of each tensor in ModelNew, and True if it is a parameter.
    """

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
    """Compare large outputs from now on with the compiled kernels in `file`."""

    file: str


@dataclass(frozen=True)
class WarmUp:
    """Warm up the oracle by a draw that is discarded, or by running the reference under torch.compile."""

    seed: int
    compiled: bool


@dataclass(frozen=True)
class ExpectBaselines:
    """Begin the part of preparing baselines that needs no GPU, in the background."""


@dataclass(frozen=True)
class Baselines:
    """Prepare the baselines.

    `more` lists baselines beside eager and torch.compile. If the reference takes less than `launch_bound_ms`
    milliseconds, a CUDA graph is prepared as well.
    """

    compiled: bool
    launch_bound_ms: float
    more: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Refresh:
    seed: int


@dataclass(frozen=True)
class Timed:
    """Time one call of the baseline `what`, after `flushes` overwrites of the L2 cache."""

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

    `rows` holds, for each baseline, the lengths of two rows of calls whose times give the time per call.
    Rows are not measured for a baseline whose single call takes `enough_ms` milliseconds or more.
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
    """Judge the outputs copied last. Outputs of calls in a row need no description, as it is known."""

    outputs: dict[str, Any] | None
    claims: TimedClaims


Command = (
    Parameters | Draw | Again | Judge | Fits | FitsOther | Explain | Show | Where | Map | Narrow | Probe
    | Duration | Trace | Rest | Health | Environment | Ways | Name | CompareFiles | Gradients | JudgeGradients
    | Variants | Variant | ComparisonKernels | WarmUp | ExpectBaselines | Baselines | Refresh | Timed
    | Slope | Take | Alone | Launches | RoomForRow | FillRow | TakeOfRow | Recall | Glance | Card | JudgeTaken
)  # fmt: skip
