"""Every command of the player, with its fields; `messages` writes and reads them.

Standalone: the player runs copies of this file and of `agent.sandbox.messages`. The one source for both
sides: the judge builds these records, and the player answers nothing else, each by its handler `do_...`.
An answer is an empty object, to `Check` the findings, to `Follow` what was written, or one of the two records
that say why there is none. Once kernels have run in its process, whatever comes from there is a claim.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Open:
    runtime: str
    libraries: list[str]
    memory: tuple[int, int]
    threads: int


@dataclass(frozen=True)
class Play:
    """`outputs`: address, bytes of an element, shape and strides of each."""

    steps: str
    launches: bool
    stem: str
    outputs: list[tuple[int, int, list[int], list[int]]]


@dataclass(frozen=True)
class Check:
    """Runs the steps as well, with the memory accesses of launches checked from step number `first` on.

    `pieces`: address and size of what kernels may access. `order` and `seed`: as kw_draw takes them.
    """

    steps: str
    first: int
    pieces: list[tuple[int, int]]
    order: int
    seed: int


@dataclass(frozen=True)
class Follow:
    """Runs the steps as well, and tells what the launches from step number `first` on wrote to which piece.

    The answer is `written`: the first and the last of launches of one kernel that follow each other, as they
    count from 1, and the number of the piece. For the n-th of them the bytes of the piece after the last
    launch are in the file `{stem}-values.{n}` and those of its cells, as kw_writers tells them, in
    `{stem}-writers.{n}`; the same of each output, in the end, in `{stem}-output.{k}` and
    `{stem}-output-writers.{k}`, from its first to its last element. `most`: bytes of values, at most.
    """

    steps: str
    first: int
    pieces: list[tuple[int, int]]
    outputs: list[tuple[int, int]]
    """Address and extent of each."""
    stem: str
    most: int


@dataclass(frozen=True)
class Followed:
    written: list[tuple[int, int, int]]


@dataclass(frozen=True)
class NotRepeatable:
    """What was recorded cannot be run: why."""

    not_repeatable: str


@dataclass(frozen=True)
class Failed:
    """Any other exception."""

    error: str
    traceback: str


Command = Open | Play | Check | Follow
