"""Commands of the reference's process about a call whose kernels are repeated; see `oracle_commands`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Show:
    """Stems of files outside the candidate's sight: for parameters and the constructor's, and for inputs."""

    parameters: str
    inputs: str


@dataclass(frozen=True)
class Launched:
    """A launch of the candidate's, by its process's own record."""

    kernel: str
    line: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]


@dataclass(frozen=True)
class Where:
    """What the candidate's kernels wrote when they were repeated; see `player_commands.Follow`.

    `outputs`: dtype, shape and strides of each.
    """

    stem: str
    launches: list[Launched]
    written: list[tuple[int, int, int, int]]
    """First and last launch, number and bytes of the piece."""
    outputs: list[tuple[str, list[int], list[int]]]
    operators: bool
    """Whether torch computes something in between."""
