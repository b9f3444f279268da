"""A copy of a reference in which equal sizes get different values. Imports torch: used in the child alone."""

import logging
from collections.abc import Iterable

from agent.compose.tracing import Traced, traced
from agent.problems.sizes import rewritten, sizes

_FACTORS = (2, 3, 5, 7, 11, 13, 17, 19)
_MOST_NODES = 2_000
"""Maximum number of graph nodes over all traces. Tracing a reference of thousands of calls takes a minute."""


def told_apart(source: str, names: Iterable[str]) -> str | None:
    """Return `source` with each named size multiplied by a factor of its own.

    A size keeps its factor only if the reference still makes the same calls. Tracing computes nothing, so no
    size is too large. Returns None if fewer than two sizes can change or the traces would exceed
    `_MOST_NODES`.
    """
    values = {size.name: size.value for size in sizes(source) if size.span is not None}
    changeable = [name for name in names if name in values]
    expected = _calls(traced(source))
    if len(changeable) < 2 or len(changeable) * len(expected) > _MOST_NODES:
        return None
    kept: dict[str, int] = {}
    for name, factor in zip(changeable, _FACTORS, strict=False):
        larger = kept | {name: values[name] * factor}
        if _called(rewritten(source, larger)) == expected:
            kept = larger
    return rewritten(source, kept) if len(kept) > 1 else None


def _called(source: str) -> list[str]:
    """Return the operators that the reference calls.

    The list is empty if the reference does not run, since not every size can change alone.
    """
    logging.disable(logging.ERROR)  # torch logs every operator that rejects its shapes
    try:
        return _calls(traced(source))
    except Exception:  # noqa: BLE001 - whatever the reference's own code raises at such a size
        return []
    finally:
        logging.disable(logging.NOTSET)


def _calls(trace: Traced) -> list[str]:
    return [str(node.target) for node in trace.graph.nodes if node.op == "call_function"]
