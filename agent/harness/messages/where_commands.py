"""Commands of the reference's process about a call whose kernels are replayed; see `oracle_commands`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Show:
    """Write the current parameters, the constructor's arguments and the inputs for a replay.

    Both fields are prefixes of file names, in a folder that the candidate's process cannot see.
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
    """Explain the last output by memory that the candidate's kernels wrote in a replay.

    The memory's values are in files, as `player_commands.Follow` describes them.

    `outputs` holds the dtype, shape and strides of each output.
    """

    stem: str
    launches: list[Launched]
    written: list[tuple[int, int, int, int]]
    """Pieces of memory: first and last launch that wrote the piece, its index, and its size in bytes."""
    outputs: list[tuple[str, list[int], list[int]]]
    operators: bool
    """True if torch operators run between the launches."""
