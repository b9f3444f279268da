"""Ideas that a model was asked for separately from the code, and their assignment to lines.

A plan is a numbered list of ideas, each with the time that it should reach. If the answer is not such a list,
lines begin with the approaches of `ideas`.
"""

import re
from collections.abc import Sequence

from agent.records import APPROACH, Move
from agent.search import ideas
from agent.search.shape import Shape
from agent.search.tree import Tree

MOST = 12
"""Maximum number of ideas read from a plan."""
READ = 64_000
"""Maximum characters of an answer that are read."""
CHARACTERS = 600
"""Maximum characters of an idea that are passed on."""
_ITEM = re.compile(r"(?m)^[ \t>*#-]*(\d{1,2})[.)](?:\*\*)?[ \t]+(?=\S)")
_BOUND = re.compile(
    r"(?i)\bbound\W{0,6}(?:about |at least )?~?(\d+(?:\.\d+)?(?:e-?\d+)?)\s*(ms|us|µs|μs|ns|s)\b"
)
_MS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ns": 1e-6}


def read(answer: str) -> tuple[str, ...]:
    """Return the ideas of an answer, sorted by the time that each should reach.

    Ideas without a time come last.
    """
    answer = answer[:READ]
    found: list[tuple[float, str]] = []
    marks = list(_ITEM.finditer(answer))
    ends = [*(mark.start() for mark in marks[1:]), len(answer)]
    for mark, end in zip(marks, ends, strict=False):
        if int(mark[1]) == len(found) + 1 <= MOST:
            text = " ".join(answer[mark.end() : end].split())
            found.append((_bound_ms(text), text[:CHARACTERS]))
    return tuple(text for _, text in sorted(found, key=lambda pair: pair[0]))


def beginning(tree: Tree, shape: Shape, number: int, island: int = 0) -> Move | None:
    """Return the move that begins line `number`, from 0; None while its idea is being asked for.

    The first line leaves the choice to the model and does not wait for the plan's answer.
    """
    if shape.plan and not tree.nodes:
        return Move(plan=True)
    if number and any(node.open for node in tree.nodes.values() if node.move.plan):
        return None
    return Move(idea=_idea(read(tree.plan), number), island=island)


def _idea(planned: Sequence[str], number: int) -> str:
    if 0 < number <= len(planned):
        return f"{APPROACH}{planned[number - 1]}"
    return ideas.choose_idea(number)


def _bound_ms(text: str) -> float:
    said = _BOUND.search(text)
    return float(said[1]) * _MS[said[2].lower()] if said else float("inf")
