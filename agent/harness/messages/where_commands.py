"""Commands of the reference's process about a call whose kernels are replayed; see `oracle_commands`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Show:
    """Stems of files outside the candidate's sight.

    `parameters` is for parameters and the constructor's arguments, `inputs` for inputs.
    """

    parameters: str
    inputs: str


@dataclass(frozen=True)
class Launched:
    """One launch by the candidate, as recorded by its own process."""

    kernel: str
    line: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@dataclass(frozen=True)
class Where:
    """Memory that the candidate's kernels wrote when they were replayed; see `player_commands.Follow`.

    `outputs` holds the dtype, shape and strides of each output.
    """

    stem: str
    launches: list[Launched]
    written: list[tuple[int, int, int, int]]
    """First and last launch, index and size in bytes of each piece."""
    outputs: list[tuple[str, list[int], list[int]]]
    operators: bool
    """True if torch computes something between the launches."""
