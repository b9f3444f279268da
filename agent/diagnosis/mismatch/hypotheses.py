"""All that a wrong output could be, in the order in which it is tried.

A hypothesis is a name and a computation; whether the output is what it computes is decided elsewhere
(`agent.diagnosis.mismatch.matching`).
"""

from collections.abc import Iterator

import torch

from agent.diagnosis import wrong_references
from agent.diagnosis.mismatch import reference_faults, relations
from agent.diagnosis.mismatch.case import Case, Hypothesis
from agent.diagnosis.tape import Tape, tensors
from agent.diagnosis.wrong_references import Facts

ACROSS = (
    "statistics-over-batch",
    "running-stats-ignored",
    "first-batch-only",
    "softmax-wrong-axis",
    "wrong-axis",
    "statistics-over-wrong-axes",
    "layout-misread",
    "keepdim-broadcast",
)
"""Kinds by which a sample depends on others; the likelier ones first."""


def early(case: Case, tape: Tape, facts: Facts, across: bool = False) -> Iterator[Hypothesis]:
    """Those that are tried always, by rank; with `across` what mixes samples comes first."""
    made = [_of(tape, variant) for variant in wrong_references.of(tape, facts)]
    found = [*made, *reference_faults.of(case, tape), *relations.of(case)]
    yield from sorted(found, key=lambda one: (_mixing(one) if across else 0, one.rank))


def _mixing(hypothesis: Hypothesis) -> int:
    return ACROSS.index(hypothesis.kind) if hypothesis.kind in ACROSS else len(ACROSS)


def late(tape: Tape, facts: Facts) -> Iterator[Hypothesis]:
    """Those that lose part of what is reduced: many, for when nothing else fits."""
    made = (_of(tape, variant) for variant in wrong_references.of(tape, facts, late=True))
    yield from sorted(made, key=lambda hypothesis: hypothesis.rank)


def _of(tape: Tape, variant: wrong_references.Variant) -> Hypothesis:
    def outputs() -> list[torch.Tensor]:
        return tensors(tape.again(variant.rewrites, variant.replaced))

    return Hypothesis(
        variant.kind, variant.words, outputs, variant.rank, variant.tokens, variant.rewrites, variant.replaced
    )
