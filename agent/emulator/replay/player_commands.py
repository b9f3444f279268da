"""Commands of the player and their answers, which `messages` encodes and decodes.

This file is standalone: the player runs copies of it and of `agent.sandbox.messages`. The judge builds these
records, and the player handles each command in its method `do_...`. `Check` is answered with findings,
`Follow` with `Followed`, and `Open` and `Play` with an empty object. Failures are answered with
`NotRepeatable` or `Failed`. Once kernels have run in the player's process, its answers are untrusted claims.
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
    """Command to run the steps and save the outputs.

    Each of `outputs` has an address, element size in bytes, shape and strides. `launches` false skips the
    kernels.
    """

    steps: str
    launches: bool
    stem: str
    outputs: list[tuple[int, int, list[int], list[int]]]


@dataclass(frozen=True)
class Check:
    """Command to run the steps and check the memory accesses of launches from step `first` on.

    Each of `pieces` has the address and size (bytes) of memory that kernels may access. `order` and `seed`
    are the arguments of kw_draw.
    """

    steps: str
    first: int
    pieces: list[tuple[int, int]]
    order: int
    seed: int


@dataclass(frozen=True)
class Follow:
    """Command to run the steps and report which pieces the launches from step `first` on wrote.

    Entry n of the answer's `written` covers consecutive launches of one kernel. The entry has the first and
    last launch (counting from 1) and the number of the piece. File `{stem}-values.{n}` holds the bytes of the
    piece after the last launch, and `{stem}-writers.{n}` its cells from kw_writers. At the end each output,
    from its first to its last element, is saved in `{stem}-output.{k}` and `{stem}-output-writers.{k}`.
    `most` is the maximum number of bytes of values.
    """

    steps: str
    first: int
    pieces: list[tuple[int, int]]
    outputs: list[tuple[int, int]]
    """Address and extent (bytes) of each output."""
    stem: str
    most: int


@dataclass(frozen=True)
class Followed:
    written: list[tuple[int, int, int]]


@dataclass(frozen=True)
class NotRepeatable:
    """Answer with the reason why the recorded steps cannot be run."""

    not_repeatable: str


@dataclass(frozen=True)
class Failed:
    """Answer after any exception except NotRepeatable."""

    error: str
    traceback: str


Command = Open | Play | Check | Follow
