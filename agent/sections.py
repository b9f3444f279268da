"""How much of a prompt each section may take, and what is left out when it takes more.

A section is shortened by whole pieces, with a count of what is missing: code is shown whole or not at all, a
finding, a ledger entry and an operator's card likewise. The reference and the answer that is to be mended are
never shortened; nothing here knows what the pieces mean.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeVar

Piece = TypeVar("Piece")

CHARACTERS_PER_TOKEN = 4
"""Rule of thumb for English and code; tokenizers differ by a third either way."""

FINDINGS = 800
"""Tokens for the findings in the last attempt. The headline is shown whatever it takes."""
LEDGER = 400
"""Tokens for the earlier attempts."""
CARDS = 2_500
"""Tokens for the definitions of the operators."""
GPU = 400
"""Tokens for the card of the GPU; a test holds every one to it."""
NOTES = 1_000
"""Tokens for what is noted of a verified attempt, with its figures: launches, registers, counters."""
LAUNCHES = 300
"""Tokens for what took the time of one call."""
RIVALS = 200
"""Tokens for what torch.compile launches for the same graph."""
BEST_CODE = 6_000
"""Tokens for the code of the best attempt where it stands beside another."""


def tokens(text: str) -> int:
    """An estimate from the number of characters; no tokenizer is asked."""
    return ceil(len(text) / CHARACTERS_PER_TOKEN)


def first(pieces: Sequence[Piece], limit: int, text: Callable[[Piece], str]) -> tuple[Piece, ...]:
    """The first pieces that fit `limit` tokens together; always one, where there is one."""
    used = 0
    kept: list[Piece] = []
    for piece in pieces:
        used += tokens(text(piece))
        if kept and used > limit:
            break
        kept.append(piece)
    return tuple(kept)


def last(pieces: Sequence[Piece], limit: int, text: Callable[[Piece], str]) -> tuple[Piece, ...]:
    """As `first`, from the end; the order stays."""
    return first(pieces[::-1], limit, text)[::-1]


def paragraphs(text: str, limit: int) -> str:
    """The first paragraphs that fit, and how many are left out."""
    given = text.split("\n\n")
    kept = first(given, limit, lambda paragraph: paragraph)
    left = len(given) - len(kept)
    note = [f"({left} more paragraph{'s' if left > 1 else ''} left out for length.)"] if left else []
    return "\n\n".join([*kept, *note])
