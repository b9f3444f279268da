"""Shapes over which a kernel is swept: those of models, from a batch of one to large ones, and odd ones.

Each shape is a forward and a training step. A kernel without shapes of its own here is swept over its cases.
Shapes listed first are measured first.
"""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from agent.kernels import cases, sources
from agent.kernels.case import Case, both
from agent.kernels.sweep import norm_shapes, other_shapes
from agent.kernels.sweep.peers import load_peers as peers_of

HELD_BACK = 3
"""One shape out of this many is held back: its times may not choose which path a call takes."""
LARGEST_BYTES = 4 << 30
"""Maximum bytes that a row moves, since the tensors of several sides are in memory at once."""


class Entry(NamedTuple):
    """One row of the sweep."""

    case: Case
    source: str
    """Model or use that has this shape."""

    @property
    def name(self) -> str:
        """Return kernel, shape, dtype, setting and direction, which together are unique."""
        return " ".join(
            (self.case.kernel, str(list(self.case.shape)), self.case.dtype_name, self.case.setting)
        ).strip()


def is_held_back(case: Case) -> bool:
    """Return True if the shape is held back, by a hash of kernel, shape and dtype.

    Both directions and every setting of a shape are therefore either held back or not.
    """
    named = f"{case.kernel} {list(case.shape)} {case.dtype_name}"
    return int.from_bytes(sha256(named.encode()).digest()[:4]) % HELD_BACK == 0


def list_rows(kernel: str) -> tuple[Entry, ...]:
    """Return all rows of one kernel."""
    shapes = {**norm_shapes.SHAPES, **other_shapes.SHAPES}.get(kernel)
    if shapes is None:
        found = [
            Entry(one, "the kernel's own cases") for one in cases.list_cases(kernel) if one.in_a_row == 1
        ]
    else:
        found = [Entry(one, source) for source, case in shapes() for one in both(case)]
    named = {entry.name: entry for entry in found if entry.case.least_bytes <= LARGEST_BYTES}
    return tuple(Entry(_beside_peers(entry.case), entry.source) for entry in named.values())


def in_turn(kernels: Iterable[str] = sources.NAMES) -> tuple[Entry, ...]:
    """Return the rows of these kernels: the first shape of each, then the second of each, and so on."""
    of_each = [list_rows(kernel) for kernel in kernels]
    longest = max(map(len, of_each), default=0)
    return tuple(rows[place + side] for place in range(0, longest, 2) for rows in of_each
                 for side in (0, 1) if place + side < len(rows))  # fmt: skip


def _beside_peers(case: Case) -> Case:
    # Replaces the case's own rivals, which compute at another precision.
    return replace(case, rivals=peers_of(case))
