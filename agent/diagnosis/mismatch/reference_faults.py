"""Faults of the reference as a whole: its parameters, inputs, axis, and missing steps."""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import NamedTuple

import torch

from agent.diagnosis.graph import Rewrite, tensors
from agent.diagnosis.mismatch.case import Case, Hypothesis
from agent.diagnosis.source_lines import INTEGER
from agent.diagnosis.tape import MOVES, Call, Tape
from agent.diagnosis.wrong_references.composing import Before
from agent.diagnosis.wrong_references.products import PRECISIONS

Tensor = torch.Tensor
MOST_STAGES = 40


def propose_faults(case: Case, tape: Tape) -> Iterator[Hypothesis]:
    """Yield all faults of the reference as a whole."""
    yield from _other_axis(tape)
    yield from _parameters(case, tape)
    yield from _inputs(case, tape)
    yield from _stages(case, tape)


class _Named(NamedTuple):
    """The kind, words, rank and source tokens of a hypothesis."""

    kind: str
    words: str
    rank: int
    tokens: str


def _replacing(tape: Tape, named: _Named, replaced: dict[int, Tensor]) -> Hypothesis:
    def outputs() -> list[Tensor]:
        return tensors(tape.again({}, replaced))

    kind, words, rank, tokens = named
    return Hypothesis(kind, words, outputs, rank, tokens, rewrites={}, replaced=replaced)


def _other_axis(tape: Tape) -> Iterator[Hypothesis]:
    """Yield hypotheses in which every operator along one dimension works along another one."""
    along: dict[int, list[tuple[Call, str]]] = {}
    for call in tape.calls:
        for key in ("dim", "dims"):
            value = call.given.get(key)
            axis = value[0] if isinstance(value, (list, tuple)) and len(value) == 1 else value
            operand = next(iter(call.given.values()))
            if type(axis) is int and isinstance(operand, Tensor) and operand.dim():
                along.setdefault(axis % operand.dim(), []).append((call, key))
    for axis, uses in along.items():
        dims = min(next(iter(call.given.values())).dim() for call, _ in uses)
        for other in range(dims) if len(uses) > 1 else ():
            if other != axis:
                rewrites = {call.number: _along(call, key, other) for call, key in uses}
                words = f"along dim {other}; the reference works along dim {axis}"
                outputs = lambda r=rewrites: tensors(tape.again(r))  # noqa: E731
                yield Hypothesis("wrong-axis", words, outputs, 1, "for", rewrites)


def _along(call: Call, key: str, other: int) -> Rewrite:
    listed = isinstance(call.given[key], (list, tuple))
    return Before(call.func, {key: [other] if listed else other})


def _parameters(case: Case, tape: Tape) -> Iterator[Hypothesis]:
    """Yield hypotheses with parameters without an effect: left as constructed, zero or one."""
    stale = {name: value for name, value in case.defaults.items() if name in case.parameters}
    different = {
        name: value for name, value in stale.items() if not torch.equal(value, case.parameters[name])
    }
    kind = "stale-default-parameter"
    for name, value in different.items():
        words = f"with `{name}` as it is constructed: the given `{name}` is ignored"
        named = _Named(kind, words, 2, name.split(".")[-1])
        yield _replacing(tape, named, {id(case.parameters[name]): value})
    if len(different) > 1:
        words = "with all parameters as constructed: right with default parameters, wrong with perturbed ones"
        everything = {id(case.parameters[name]): value for name, value in different.items()}
        yield _replacing(tape, _Named(kind, words, 2, "weight|bias"), everything)
    for name, tensor in case.parameters.items():
        if tensor.is_floating_point() and tensor.numel() > 0:
            last = name.split(".")[-1]
            for kind, word, value in (
                ("bias-missing", "zero", torch.zeros_like(tensor)),
                ("weight-ignored", "one", torch.ones_like(tensor)),
            ):
                named = _Named(kind, f"with `{name}` taken for {word}: it is ignored", 2, last)
                yield _replacing(tape, named, {id(tensor): value})
    for one, other in permutations(case.parameters, 2):
        a, b = case.parameters[one], case.parameters[other]
        if one < other and a.shape == b.shape and a.is_floating_point():
            words = f"with the parameters `{one}` and `{other}` exchanged"
            yield _replacing(tape, _Named("operands-swapped", words, 2, ""), {id(a): b, id(b): a})


def _inputs(case: Case, tape: Tape) -> Iterator[Hypothesis]:
    """Yield hypotheses with inputs swapped, made integers, rounded or misread, or sample 0 for all."""
    for one, a in enumerate(case.inputs):
        for other, b in enumerate(case.inputs):
            if one < other and a.shape == b.shape and a.dtype == b.dtype:
                words = f"with inputs {one} and {other} swapped"
                yield _replacing(tape, _Named("operands-swapped", words, 1, ""), {id(a): b, id(b): a})
        if not a.is_floating_point() or a.numel() == 0:
            continue
        for kind, words, rank, changed in (*_misread_inputs(a, case.truth), *_unread_inputs(a, case)):
            named = _Named(kind, words.format(f"input {one}"), rank, INTEGER if "integer" in words else "")
            yield _replacing(tape, named, {id(a): changed})


def _misread_inputs(a: Tensor, truth: list[Tensor]) -> Iterator[tuple[str, str, int, Tensor]]:
    yield "truncated-to-integer", "with {} truncated to integers", 2, a.trunc()
    yield "sign-error", "with {} negated", 3, -a
    for bits, change in PRECISIONS.items():
        yield "reduced-precision", "with {} rounded to " + bits + ": reduced precision", 3, change(a)
    if a.dim() and a.shape[0] > 1:
        of_batch = any(t.dim() and t.shape[0] == a.shape[0] for t in truth)
        words = "with the first sample of {} for every sample"
        if not of_batch:
            words = "with the first row (channel) of {} for every one: the index is ignored"
        kind = "first-batch-only" if of_batch else "index-ignored"
        yield kind, words, 2, a[:1].expand_as(a).clone()
    if a.dim() > 1:
        for axis in range(a.dim() - 1):
            if a.shape[axis] > 1 and a.shape[axis + 1] > 1:
                turned = a.transpose(axis, axis + 1)
                words = f"with the memory of {{}} read as if dims {axis} and {axis + 1} were exchanged"
                yield "layout-misread", words, 3, turned.reshape(a.shape)
                yield (
                    "layout-misread",
                    words,
                    3,
                    a.reshape(turned.shape).transpose(axis, axis + 1).contiguous(),
                )
    for axis in range(a.dim()):
        if a.shape[axis] == 2:
            words = f"with the two of dim {axis} of {{}} exchanged (swapped, each in the other's place)"
            yield "operands-swapped", words, 3, a.flip(axis)
        elif a.shape[axis] > 1:
            yield (
                "index-off-by-one",
                f"with {{}} read one element ahead along dim {axis}: the index is off by one",
                4,
                a.roll(-1, axis),
            )
            words = f"with {{}} read one element back along dim {axis}: the index is off by one"
            yield "index-off-by-one", words, 4, a.roll(1, axis)


def _unread_inputs(a: Tensor, case: Case) -> Iterator[tuple[str, str, int, Tensor]]:
    """Yield an input that is not read, or is taken for its square or root, as variance for deviation."""
    largest = max((one.dim() for one in case.inputs), default=0)
    kind = "wrong-initial-state" if a.dim() < largest else "operator-missing"
    yield kind, "with {} taken for zero: it is not read", 3, torch.zeros_like(a)
    if bool((a > 0).all()):
        yield "root-omitted", "with {} squared: it is taken for its own root", 3, a * a
        yield "square-omitted", "with the root of {}: it is taken for its own square", 3, a.sqrt()


def _stages(case: Case, tape: Tape) -> Iterator[Hypothesis]:
    """Yield hypotheses with an intermediate result as the output: the steps after it are missing."""
    after = [call for call in tape.calls if not (call.is_view or call.name in MOVES)]
    for place, call in enumerate(after[-MOST_STAGES:]):
        later = [other.name.strip("_") for other in after[-MOST_STAGES:][place + 1 :]]
        if call.value is not None and len(later) > 1:
            missing = ", ".join(later[:6])
            words = f"after {call.name.strip('_')}: up to there all agrees, and {missing} are missing"
            yield Hypothesis("operator-missing", words, _same(call, len(case.truth)), 2, "")
    for place, given in enumerate(case.inputs):
        yield Hypothesis(
            "operator-missing",
            f"left out: the output is input {place}",
            lambda g=given: [g] * len(case.truth),  # type: ignore[misc]
            2,
        )


def _same(call: Call, outputs: int) -> Callable[[], list[Tensor]]:
    assert call.value is not None
    value = call.value
    return lambda: [value] * outputs
