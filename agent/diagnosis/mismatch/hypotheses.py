"""Hypotheses about a wrong output, in the order in which they are tried.

A hypothesis is a name and a computation. Whether the output equals its result is decided elsewhere
(`agent.diagnosis.mismatch.matching`).
"""

from collections.abc import Iterator

import torch

from agent.diagnosis import mutations, wrong_references
from agent.diagnosis.graph import Rewrite, tensors
from agent.diagnosis.mismatch import reference_faults, relations, renumbered
from agent.diagnosis.mismatch.case import Case, Hypothesis
from agent.diagnosis.mutations import interpolation, reductions
from agent.diagnosis.mutations.groups import Groups
from agent.diagnosis.tape import Tape
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
"""Kinds of faults that make a sample depend on other samples, the likelier kinds first."""


def early(case: Case, tape: Tape, facts: Facts, across: bool = False) -> Iterator[Hypothesis]:
    """Yield the hypotheses that are always tried, by rank.

    With `across`, hypotheses that mix samples come first.
    """
    variants = [*wrong_references.list_variants(tape, facts), *interpolation.mutate(Groups(tape), facts)]
    made = [_of(tape, variant) for variant in variants]
    found = [
        *made,
        *reference_faults.propose_faults(case, tape),
        *relations.propose_relations(case),
        *renumbered.propose_renumbered(case),
    ]
    yield from sorted(found, key=lambda one: (_mixing(one) if across else 0, one.rank))


def _mixing(hypothesis: Hypothesis) -> int:
    return ACROSS.index(hypothesis.kind) if hypothesis.kind in ACROSS else len(ACROSS)


def late(tape: Tape, facts: Facts) -> Iterator[Hypothesis]:
    """Yield the hypotheses that lose part of a reduction; they are many, tried only if no other one fits."""
    made = (_of(tape, variant) for variant in wrong_references.list_variants(tape, facts, late=True))
    yield from sorted(made, key=lambda hypothesis: hypothesis.rank)


def mutated(tape: Tape, facts: Facts) -> Iterator[Hypothesis]:
    """Yield the generic mutations, which are made from the recorded operators without rules."""
    groups = Groups(tape)
    yield from _isolated(tape, groups)
    for variant in mutations.mutate(groups, facts):
        yield _of(tape, variant)


def _isolated(tape: Tape, groups: Groups) -> Iterator[Hypothesis]:
    """Yield hypotheses with statistics for each index of a dimension instead of over all indices."""
    shapes = [tuple(t.shape) for t in tensors(tape.result)]
    for words, rewrites, size in reductions.isolated(groups):
        for axis in {shape.index(size) for shape in shapes if size in shape}:

            def outputs(
                rewrites: list[dict[int, Rewrite]] = rewrites, axis: int = axis, size: int = size
            ) -> list[torch.Tensor]:
                runs = [tensors(tape.again(one)) for one in rewrites]
                return [
                    torch.cat([run[k].narrow(axis, place, 1) for place, run in enumerate(runs)], axis)
                    if t.dim() > axis and t.shape[axis] == size
                    else t
                    for k, t in enumerate(runs[0])
                ]

            yield Hypothesis("statistics-per-channel", words, outputs, 6)


def _of(tape: Tape, variant: wrong_references.Variant) -> Hypothesis:
    def outputs() -> list[torch.Tensor]:
        return tensors(tape.again(variant.rewrites, variant.replaced))

    return Hypothesis(
        variant.kind, variant.words, outputs, variant.rank, variant.tokens, variant.rewrites,
        variant.replaced, lines=_lines(tape, variant),
    )  # fmt: skip


def _lines(tape: Tape, variant: wrong_references.Variant) -> tuple[str, ...]:
    """Return the line of the first changed call, if the reference has more than one line."""
    place = tape.calls[min(variant.rewrites)].place if variant.rewrites else None
    return (place.text,) if place is not None and place.text and tape.once(_has_lines) else ()


def _has_lines(tape: Tape) -> bool:
    return len({call.place.line for call in tape.calls if call.place is not None}) > 1
