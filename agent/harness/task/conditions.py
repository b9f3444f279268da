"""What each draw finds in fresh memory, and on the emulator in which order its threads run.

A GPU promises neither, so a right answer hangs on neither. The kinds go round in a sequence that is drawn for
each trial, with numbers that nobody knows before the call that brings them.
"""

import secrets
from typing import TypeVar

from agent.harness.worker.worker_commands import ONES, Conditions
from agent.torch_shim import c_abi

_MEMORY = (c_abi.MEMORY_HUGE, c_abi.MEMORY_HUGE_NEGATIVE, c_abi.MEMORY_LEAST, c_abi.MEMORY_USED)
_SURROUNDINGS = ((1, True), (2, False), (2, True), (3, False))
"""Threads of torch, and whether gradients are recorded; the first call has one thread and none."""
_ORDERS = (c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED, c_abi.ORDER_INTERLEAVED)

T = TypeVar("T")


def fresh_word(dealt: Conditions | None) -> int:
    """The 32 bits that free memory of a GPU is full of in a draw: the kinds of `fresh_word_of` in draw.cpp.

    Memory that is used is ones here: what a call left there may be the very result that the next one owes.
    """
    if dealt is None:
        return ONES
    huge = 0x7100 + dealt.seed % 0x700
    words = {
        c_abi.MEMORY_HUGE: huge << 16 | huge,
        c_abi.MEMORY_HUGE_NEGATIVE: (huge << 16 | huge) | 0x80008000,
        c_abi.MEMORY_LEAST: 1 + dealt.seed % 15,
    }
    return words.get(dealt.memory, ONES)


class Dealer:
    """Deals the conditions of one trial, draw by draw."""

    def __init__(self) -> None:
        self._random = secrets.SystemRandom()
        self._memory: list[int] = []
        self._orders: list[int] = []
        self._surroundings: list[tuple[int, bool]] = []
        self._begun = False

    def deal(self, *, checked: bool, secret: bool = False) -> Conditions:
        """Those of the next draw; `checked`: whether its memory accesses are planned to be, `secret`: at a
        place that the protocol does not tell.

        A checked draw finds ones everywhere: used memory would hide what nobody has written. The first draw
        runs in order besides, so that what a plain mistake does is told in plain words. Later checked draws
        interleave threads, which the PTX of the other draws cannot, and run under the second of two streams,
        the first under the first: neither is a sign that nothing is checked. One that is checked in secret
        finds what those that are not checked find, so that memory does not tell either.
        """
        first, self._begun = not self._begun, True
        seed = secrets.randbits(63)
        if first:
            return Conditions(c_abi.MEMORY_ONES, c_abi.ORDER_FORWARD, seed, 0)
        if checked and not secret:
            return Conditions(c_abi.MEMORY_ONES, c_abi.ORDER_INTERLEAVED, seed, 1)
        memory = self._next(self._memory, _MEMORY)
        order = c_abi.ORDER_INTERLEAVED if secret else self._next(self._orders, _ORDERS)
        around = self._next(self._surroundings, _SURROUNDINGS)
        return Conditions(memory, order, seed, secrets.randbelow(2), *around)

    def _next(self, left: list[T], kinds: tuple[T, ...]) -> T:
        if not left:
            left += kinds
            self._random.shuffle(left)
        return left.pop()
