"""A copy of a reference at which equal sizes are told apart. Imports torch: for the child alone."""

import logging
from collections.abc import Iterable

from agent.compose.tracing import Traced, traced
from agent.problems.sizes import rewritten, sizes

_FACTORS = (2, 3, 5, 7, 11, 13, 17, 19)
_MOST_NODES = 2_000
"""Of the graphs that are traced for it, together: a reference of thousands of calls takes a minute each."""


def told_apart(source: str, names: Iterable[str]) -> str | None:
    """`source` with each of the named sizes multiplied by a factor of its own, as far as it calls the same.

    Nothing is computed, so that no size is too large. None where no two sizes can be told apart.
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
    """What the reference calls; nothing where it does not run: not every size goes with the others."""
    logging.disable(logging.ERROR)  # torch tells of every operator that does not take its shapes
    try:
        return _calls(traced(source))
    except Exception:  # noqa: BLE001 - whatever the reference's own code raises at such a size
        return []
    finally:
        logging.disable(logging.NOTSET)


def _calls(trace: Traced) -> list[str]:
    return [str(node.target) for node in trace.graph.nodes if node.op == "call_function"]
