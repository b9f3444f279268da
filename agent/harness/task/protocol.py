"""Which draws a candidate has to stand, in which order, as data.

Two sets of perturbed parameters, a new instance for each. The memory accesses of the first draw of a set are
checked where that is possible, and those of another at a secret place.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

Name = Literal["full", "reduced", "quick", "further", "once"]
"""`reduced`: fewer draws, each of which is costly. `further`: at other sizes, of what the full protocol has
judged already; `once`: so at the real sizes, by a single draw."""

FAMILIES = ("shifted", "scaled", "faint", "sparse", "tied", "negative", "vast", "minute")
"""Of inputs, as `truth.input_distributions` derives them; each needs a reference that stays finite."""
TIGHTENING = ("negated", "even", "lone", "rows", "uneven")
"""Families that join only where admission finds that a wrong answer would pass without them."""
DOMINATED = ("lone", "rows", "uneven")
"""Families in each set of parameters where all of a large input ends in a few numbers: in others, what one
element or one row contributes is lost in them."""
VARYING = ("redrawn", "ragged", "wide", "mixed", "edges")
"""Families that follow from how the reference uses its inputs; a reference without such inputs has none."""
FEW = 64
"""Elements up to which an output has few."""
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
    """One call of the candidate."""

    family: str | None = None
    """None: the distribution that `get_inputs` states."""
    repeat: bool = False
    """The inputs of the draw before once more, at another address."""
    in_place: bool = False
    """The inputs take the memory of the draw before."""
    checked: bool = False
    secret: bool = False
    """Nothing but the check sets it apart from calls that are not checked."""


REDUCED = ("shifted", "negative", "vast", "redrawn", "ragged", "mixed")
"""The families that stay where a call is so costly that there are fewer of them."""

Plan = tuple[tuple[Draw, ...], tuple[Draw, ...]]
_FIRST = Draw(checked=True)


def plan(protocol: Name, tightened: tuple[str, ...] = (), few: bool = False) -> Plan:
    """The draws of both parameter sets; `tightened` names families that the problem needs besides.

    `few`: as that function says.
    """
    if protocol == "quick":
        return (_FIRST, Draw(in_place=True)), (Draw(),)
    if protocol == "once":
        return (Draw(),), ()
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
    """The plan with memory checked in one more draw, which `below` chooses, where each set has a checked one.

    Those that are always checked are known to whoever knows the protocol, and could be all that keep within
    bounds. The repeated call stays as it is: it has to find what the call before it found.
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
    """The draw with its memory checked if that is owed: where it was not to be, in secret."""
    return draw._replace(checked=owed, secret=owed and (draw.secret or not draw.checked))


def few(inputs: Iterable[Sequence[int]], outputs: Iterable[Sequence[int]]) -> bool:
    """Whether outputs of these shapes have few elements, and an input so many times more."""
    most = max(map(math.prod, outputs), default=0)
    return most <= FEW and max(map(math.prod, inputs), default=0) >= FEW * max(most, 1)


def weakened(strength: float) -> tuple[str, ...]:
    """What parameters perturbed by that share leave out, for the scope of a verdict."""
    if strength == 1:
        return ()
    share = f"1/{round(1 / strength)}"
    return (f"full perturbation of the parameters ({share} of it): with more, float32 misses its own truth",)


def skipped(protocol: Name, few: bool = False) -> tuple[str, ...]:
    """What the plan leaves out, for the scope of a verdict."""
    if protocol in ("full", "further", "once"):
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
