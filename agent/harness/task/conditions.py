"""Conditions of each draw: the content of fresh memory and, on the emulator, the order of threads.

A GPU guarantees neither, so a correct result depends on neither. The kinds of memory and order rotate in a
random sequence for each trial, with seeds that are drawn just before the call.
"""

import secrets
from typing import TypeVar

from agent.harness.worker.worker_commands import ONES, Conditions
from agent.torch_shim import c_abi

_MEMORY = (c_abi.MEMORY_HUGE, c_abi.MEMORY_HUGE_NEGATIVE, c_abi.MEMORY_LEAST, c_abi.MEMORY_USED)
_SURROUNDINGS = ((1, True), (2, False), (2, True), (3, False))
"""Number of torch threads, and True if autograd is on. The first call has (1, False)."""
_ORDERS = (c_abi.ORDER_REVERSE, c_abi.ORDER_SHUFFLED, c_abi.ORDER_INTERLEAVED)

T = TypeVar("T")


def fresh_word(dealt: Conditions | None) -> int:
    """Return the 32-bit word that fills free GPU memory in a draw, as `fresh_word_of` in draw.cpp does.

    The kind "used memory" gives ones here. Memory of an earlier call may hold the very result that the next
    call has to compute.
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
    """Generator of the conditions of one trial, draw by draw."""

    def __init__(self) -> None:
        self._random = secrets.SystemRandom()
        self._memory: list[int] = []
        self._orders: list[int] = []
        self._surroundings: list[tuple[int, bool]] = []
        self._begun = False

    def deal(self, *, checked: bool, secret: bool = False) -> Conditions:
        """Return the conditions of the next draw.

        `checked` is True if the protocol checks memory accesses in this draw. `secret` is True if the place
        of the check in the protocol is random.

        Fresh memory of a checked draw is all ones, since used memory would hide elements that no thread has
        written. The first draw also runs its threads in order, so that a simple mistake gets a simple
        finding. Later checked draws interleave threads, which the PTX of unchecked draws cannot. They
        run on the second of two streams and the first draw on the first, so that a stream does not reveal
        the check. A secretly checked draw gets the memory of unchecked draws, so that memory does not reveal
        the check either.
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
