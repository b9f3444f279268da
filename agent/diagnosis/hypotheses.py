"""All that a wrong output could be, in the order in which it is tried.

A hypothesis is a name and a computation; whether the output is what it computes is decided elsewhere
(`agent.diagnosis.matching`).
"""

from collections.abc import Iterator

import torch

from agent.diagnosis import relations, sources, variants
from agent.diagnosis.case import Case, Hypothesis
from agent.diagnosis.tape import Tape, tensors
from agent.diagnosis.variants import Facts

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
    made = [_of(tape, variant) for variant in variants.of(tape, facts)]
    found = [*made, *sources.of(case, tape), *relations.of(case)]
    yield from sorted(found, key=lambda one: (_mixing(one) if across else 0, one.rank))


def _mixing(hypothesis: Hypothesis) -> int:
    return ACROSS.index(hypothesis.kind) if hypothesis.kind in ACROSS else len(ACROSS)


def late(tape: Tape, facts: Facts) -> Iterator[Hypothesis]:
    """Those that lose part of what is reduced: many, for when nothing else fits."""
    made = (_of(tape, variant) for variant in variants.of(tape, facts, late=True))
    yield from sorted(made, key=lambda hypothesis: hypothesis.rank)


def _of(tape: Tape, variant: variants.Variant) -> Hypothesis:
    def outputs() -> list[torch.Tensor]:
        return tensors(tape.again(variant.rewrites, variant.replaced))

    return Hypothesis(variant.kind, variant.words, outputs, variant.rank, variant.tokens)
