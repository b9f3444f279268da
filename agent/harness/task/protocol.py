"""The draws that a candidate has to pass, in order, as data.

There are two sets of perturbed parameters, with a new instance for each. In most protocols, memory accesses
are checked in the first draw of each set, and in one more draw at a secret place.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

Name = Literal["full", "reduced", "quick", "further", "once", "large"]
"""Name of a protocol.

`reduced` has fewer draws, for costly calls. `further` judges a verified candidate at other shrunken sizes,
and `once` at the real sizes with a single draw. `large` judges it at sizes between shrunken and real ones,
at which counters and buffers of a fixed size overflow.
"""

FAMILIES = ("shifted", "scaled", "faint", "sparse", "tied", "negative", "vast", "minute")
"""Families of inputs (`truth.input_distributions`), each used if the reference stays finite on it."""
TIGHTENING = ("negated", "even", "lone", "rows", "uneven")
"""Families that join a problem's protocol if admission finds a wrong answer that only they refuse."""
DOMINATED = ("lone", "rows", "uneven")
"""Families drawn for both parameter sets if a large input is reduced to few output elements.

In other families, the contribution of one element or slice is lost in the rounding of the outputs.
"""
VARYING = ("redrawn", "ragged", "wide", "mixed", "edges")
"""Families made from the reference's use of its inputs, such as integers, masks and thresholds."""
FEW = 64
"""Maximum number of elements of an output that counts as small."""
NEAR = "near"
WORDS = {
    "shifted": "inputs shifted by three standard deviations",
    "scaled": "inputs scaled by 32",
    "faint": "inputs divided by 1024",
    "sparse": "inputs nine tenths of which are zero",
    "tied": "inputs rounded so that many are equal",
    "negative": "inputs that are negative throughout",
    "negated": "inputs with their signs changed",
    "vast": "inputs scaled by 1024 or more",
    "minute": "inputs divided by 2^20",
    "even": "inputs of sizes near 1",
    "lone": "inputs that are zero but for single large elements",
    "rows": "inputs that are zero but for a few large slices",
    "uneven": "inputs whose slices differ by up to 2^10",
    "redrawn": "integers, masks and scalars redrawn within their range",
    "ragged": "integers and masks that are skewed or equal by rows",
    "wide": "integers of either sign and every size",
    "mixed": "inputs whose slices come from different distributions",
    "edges": "inputs at the thresholds of the reference",
    NEAR: "the inputs before with a few elements changed",
}


class Draw(NamedTuple):
    """One call of the candidate in the protocol, and the inputs it gets."""

    family: str | None = None
    """Family of the inputs. None stands for the distribution that `get_inputs` states."""
    repeat: bool = False
    """True if the inputs of the previous draw are passed once more, at another address."""
    in_place: bool = False
    """True if the inputs lie in the memory of the previous draw's inputs."""
    checked: bool = False
    secret: bool = False
    """True if the call's conditions are those of an unchecked call, to hide the check."""


REDUCED = ("shifted", "negative", "vast", "redrawn", "ragged", "mixed")
"""Families of the `reduced` protocol, for costly calls."""

Plan = tuple[tuple[Draw, ...], tuple[Draw, ...]]
_FIRST = Draw(checked=True)


def plan(protocol: Name, tightened: tuple[str, ...] = (), few: bool = False) -> Plan:
    """Return the draws of both parameter sets.

    `tightened` names families that the problem needs in addition. `few` is the result of the function `few`.
    """
    if protocol == "quick":
        return (_FIRST, Draw(in_place=True)), (Draw(),)
    if protocol == "once":
        return (Draw(),), ()
    if protocol == "large":
        return (Draw(), Draw("tied", in_place=True)), ()
    both = DOMINATED if few else ()
    if protocol == "further":
        dominated = (Draw(family, in_place=True) for family in both)
        return (_FIRST, Draw("redrawn", in_place=True), Draw("shifted", in_place=True), *dominated), (
            Draw(),
            Draw("ragged", in_place=True),
            Draw("sparse", in_place=True),
            Draw("vast", in_place=True),
        )
    others = tuple(family for family in tightened if family not in both)
    if protocol == "reduced":
        kept = (*REDUCED, *others)
        return (
            (_FIRST, Draw(NEAR, in_place=True), *(Draw(f, in_place=True) for f in (*kept[::2], *both))),
            (_FIRST, *(Draw(f, in_place=True) for f in (*kept[1::2], *both))),
        )
    families = (*FAMILIES, *VARYING, *others)
    first, second = families[::2], families[1::2]
    return (
        (_FIRST, Draw(repeat=True), Draw(NEAR, in_place=True), Draw(in_place=True), Draw(),
         *(Draw(family, in_place=True) for family in (*first, *both))),
        (_FIRST, Draw(), *(Draw(family, in_place=True) for family in (*second, *both))),
    )  # fmt: skip


def with_secret_check(plan: Plan, below: Callable[[int], int]) -> Plan:
    """Return the plan with memory checked in one more draw, chosen by `below`.

    A plan without a checked draw for each parameter set is returned unchanged. The place is secret, since a
    candidate could keep within bounds only in draws that are known to be checked. The repeated call is never
    chosen, because it has to run under the conditions of the call before it.
    """
    if not all(any(draw.checked for draw in draws) for draws in plan):
        return plan
    open_places = [
        (number, place)
        for number, draws in enumerate(plan)
        for place, draw in enumerate(draws)
        if not draw.checked and not draw.repeat
    ]
    chosen = open_places[below(len(open_places))]
    first, second = (
        tuple(
            draw._replace(checked=True, secret=True) if (number, place) == chosen else draw
            for place, draw in enumerate(draws)
        )
        for number, draws in enumerate(plan)
    )
    return first, second


def checking(draw: Draw, owed: bool) -> Draw:
    """Return the draw, checked if `owed`. The check is secret if the plan has no check in this draw."""
    return draw._replace(checked=owed, secret=owed and (draw.secret or not draw.checked))


def few(inputs: Iterable[Sequence[int]], outputs: Iterable[Sequence[int]]) -> bool:
    """Return True if the outputs have few elements and an input has at least `FEW` times as many."""
    most = max(map(math.prod, outputs), default=0)
    return most <= FEW and max(map(math.prod, inputs), default=0) >= FEW * max(most, 1)


def weakened(strength: float) -> tuple[str, ...]:
    """Return the scope's note on parameters that were perturbed by less than the full strength (1)."""
    if strength == 1:
        return ()
    share = f"1/{round(1 / strength)}"
    return (f"full perturbation of the parameters ({share} of it): with more, float32 misses its own truth",)


def skipped(protocol: Name, few: bool = False) -> tuple[str, ...]:
    """Return the scope's notes on draws that the protocol leaves out."""
    if protocol in ("full", "further", "once", "large"):
        return ()
    if protocol == "reduced":
        left = ", ".join(family for family in (*FAMILIES, *VARYING) if family not in REDUCED)
        return (
            f"a call is costly at these sizes: {left} inputs, the repeated call, further draws as stated",
        )
    families = ", ".join((*FAMILIES, *VARYING, *(DOMINATED if few else ())))
    return (
        f"quick: {families} and nearly equal inputs, the repeated call, memory checks of the second "
        "parameter set, the envelope of what else is handled",
    )
