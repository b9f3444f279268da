"""The rounds of a run as a search tree: each round stands below the one that it continues.

Pure functions over a `Log`'s rounds. A run in which every round continues the previous one is a plain list.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent.records import APPROACH
from agent.store.log import Round


class Branch(NamedTuple):
    """A round at its place in the tree."""

    round: Round
    depth: int
    """Indentation level: a line of rounds keeps the level of its first one; side lines are one deeper."""

    @property
    def asked(self) -> str:
        """Describe the policy's question: `optimise after round 2`, or `optimise` in a run of one line."""
        move, prompt = self.round.move, self.round.prompt
        if move is None or prompt is None:
            return ""
        words: list[str] = [prompt.template]
        if move.beside is not None:
            words.append(f"of rounds {move.after} and {move.beside}")
        elif self.depth and move.after is not None:
            words.append(f"after round {move.after}")
        return " ".join(words)

    @property
    def idea(self) -> str:
        """Return the approach that the round was asked to try."""
        return self.round.move.idea.removeprefix(APPROACH) if self.round.move else ""


def order_rounds(rounds: Iterable[Round]) -> tuple[Branch, ...]:
    """Return the rounds in tree order: every line complete, lines in the order in which they began."""
    rounds = tuple(rounds)
    there = {entry.number for entry in rounds}
    below: dict[int | None, list[Round]] = {}
    for entry in rounds:
        after = entry.move.after if entry.move else None
        # An earlier round that cannot be read cannot be a parent.
        below.setdefault(after if after in there and after < entry.number else None, []).append(entry)
    return tuple(_walked(below))


def _walked(below: dict[int | None, list[Round]]) -> Iterator[Branch]:
    roots = below.get(None, [])
    begun = {root.number for root in roots}
    waiting = [(root, 0) for root in reversed(roots)]
    while waiting:
        entry, depth = waiting.pop()
        yield Branch(entry, depth)
        following: Sequence[Round] = below.get(entry.number, [])
        further = len(following) > 1 or (entry.number in begun and len(begun) > 1)
        waiting += [(child, depth + further) for child in reversed(following)]
