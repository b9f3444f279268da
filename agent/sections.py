"""Token budgets of a prompt's sections, and the truncation of sections that exceed them.

A section is shortened by whole pieces, with a count of the omitted ones. Code, a finding, a ledger entry and
an operator's card are each shown whole or not at all. The reference and the answer to repair are never
shortened. The functions here do not interpret the pieces.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar

Piece = TypeVar("Piece")

CHARACTERS_PER_TOKEN = 4
"""Average characters per token of English and code. Tokenizers differ by up to a third."""

FINDINGS = 800
"""Tokens for the findings in the last attempt. The headline is always shown."""
LEDGER = 400
"""Tokens for the earlier attempts."""
CARDS = 2_500
"""Tokens for the definitions of the operators."""
GPU = 400
"""Tokens for the GPU's card. A test checks every card against this limit."""
NOTES = 1_000
"""Tokens for the notes on a verified attempt and their figures: launches, registers, counters."""
LAUNCHES = 300
"""Tokens for the kernel launches of one call."""
RIVALS = 200
"""Tokens for the kernel launches of torch.compile for the same graph."""
BEST_CODE = 6_000
"""Tokens for the code of the best attempt where another attempt is shown too."""


def tokens(text: str) -> int:
    """Estimate the number of tokens from the number of characters."""
    return ceil(len(text) / CHARACTERS_PER_TOKEN)


def first(pieces: Sequence[Piece], limit: int, text: Callable[[Piece], str]) -> tuple[Piece, ...]:
    """Return the first pieces that fit `limit` tokens together, but at least one if there is one."""
    used = 0
    kept: list[Piece] = []
    for piece in pieces:
        used += tokens(text(piece))
        if kept and used > limit:
            break
        kept.append(piece)
    return tuple(kept)


def last(pieces: Sequence[Piece], limit: int, text: Callable[[Piece], str]) -> tuple[Piece, ...]:
    """Return the last pieces that fit `limit` tokens, in their original order. See `first`."""
    return first(pieces[::-1], limit, text)[::-1]


def paragraphs(text: str, limit: int) -> str:
    """Return the first paragraphs that fit `limit` tokens, and the number of omitted ones."""
    given = text.split("\n\n")
    kept = first(given, limit, lambda paragraph: paragraph)
    left = len(given) - len(kept)
    note = [f"({left} more paragraph{'s' if left > 1 else ''} left out for length.)"] if left else []
    return "\n\n".join([*kept, *note])
