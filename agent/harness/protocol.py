"""Which draws a candidate has to stand, in which order, as data.

Two sets of perturbed parameters, a new instance for each. The first draw of a set is the one whose memory
accesses are checked where that is possible.
"""

from typing import Literal, NamedTuple

Name = Literal["full", "quick"]

FAMILIES = ("shifted", "scaled", "faint", "sparse", "tied", "negative")
"""Of inputs, as `agent.harness.families` derives them; each needs a reference that stays finite."""
TIGHTENING = ("negated", "vast", "minute")
"""Families that join only where admission finds that a wrong answer would pass without them."""
NEAR = "near"
WORDS = {
    "shifted": "inputs shifted by three standard deviations",
    "scaled": "inputs scaled by 32",
    "faint": "inputs divided by 1024",
    "sparse": "inputs nine tenths of which are zero",
    "tied": "inputs rounded so that many are equal",
    "negative": "inputs that are negative throughout",
    "negated": "inputs with their signs changed",
    "vast": "inputs scaled by 1024",
    "minute": "inputs divided by 2^20",
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


Plan = tuple[tuple[Draw, ...], tuple[Draw, ...]]
_FIRST = Draw(checked=True)


def plan(protocol: Name, tightened: tuple[str, ...] = ()) -> Plan:
    """The draws of both parameter sets; `tightened` names families that the problem needs besides."""
    if protocol == "quick":
        return (_FIRST, Draw(in_place=True)), (Draw(),)
    first, second = (*FAMILIES, *tightened)[::2], (*FAMILIES, *tightened)[1::2]
    return (
        (_FIRST, Draw(repeat=True), Draw(NEAR, in_place=True), Draw(in_place=True), Draw(),
         *(Draw(family, in_place=True) for family in first)),
        (_FIRST, Draw(), *(Draw(family, in_place=True) for family in second)),
    )  # fmt: skip


def skipped(protocol: Name) -> tuple[str, ...]:
    """What the plan leaves out, for the scope of a verdict."""
    if protocol == "full":
        return ()
    families = ", ".join(FAMILIES)
    return (
        f"quick: {families} and nearly equal inputs, the repeated call, memory checks of the second "
        "parameter set, the envelope of what else is handled",
    )
