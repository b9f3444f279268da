"""The rounds of a run as its search went: each below the one that it goes on from.

Pure, over a `Log`'s rounds. A run in which every round goes on from the one before is a plain list.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent.records import APPROACH
from agent.store.log import Round


class Branch(NamedTuple):
    """A round in its place."""

    round: Round
    depth: int
    """How far it is indented: a line of rounds stays below its first one, side lines one further."""

    @property
    def asked(self) -> str:
        """What the policy asked for: `optimise after round 2`; in a run of one line, `optimise`."""
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
        """The approach that it was given to try."""
        return self.round.move.idea.removeprefix(APPROACH) if self.round.move else ""


def of(rounds: Iterable[Round]) -> tuple[Branch, ...]:
    """The rounds in the order of a tree: every line whole, in the order in which the lines were begun."""
    rounds = tuple(rounds)
    there = {entry.number for entry in rounds}
    below: dict[int | None, list[Round]] = {}
    for entry in rounds:
        after = entry.move.after if entry.move else None
        # What comes before and does not read is no place to stand below.
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
