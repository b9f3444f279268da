"""Mutations of every number among the arguments of every operator, found by the operator's schema."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from agent.diagnosis import roles
from agent.diagnosis.graph import Arguments, Rewrite, invoke, tensors
from agent.diagnosis.mutations.groups import MADE, Group, Groups, variant
from agent.diagnosis.tape import Call
from agent.diagnosis.wrong_references.rules import Facts, Variant

_SKIPPED = frozenset(
    {"dtype", "layout", "device", "pin_memory", "memory_format", "generator", "non_blocking"}
)
KINDS = {
    "padding": "padding-off-by-one",
    "pad": "padding-off-by-one",
    "stride": "stride-ignored",
    "dilation": "dilation-ignored",
    "groups": "groups-ignored",
    "align_corners": "align-corners",
    "ceil_mode": "wrong-rounding",
    "rounding_mode": "wrong-rounding",
    "count_include_pad": "pool-divisor",
    "divisor_override": "pool-divisor",
    "kernel_size": "pool-window",
    "dim": "wrong-axis",
    "dims": "wrong-axis",
    "dim0": "transposed-operand",
    "dim1": "transposed-operand",
    "correction": "biased-variance",
    "unbiased": "biased-variance",
    "index": "index-off-by-one",
    "start": "index-off-by-one",
    "end": "index-off-by-one",
    "step": "stride-ignored",
    "shifts": "index-off-by-one",
    "diagonal": "mask-shifted",
    "offset": "mask-shifted",
    "size": "layout-misread",
    "shape": "layout-misread",
    "split_size": "layout-misread",
    "split_sizes": "layout-misread",
    "repeats": "layout-misread",
    "periodic": "wrong-divisor",
    "momentum": "wrong-decay",
    "eps": "wrong-eps",
    "k": "wrong-rank",
    "descending": "sort-order",
    "largest": "sort-order",
    "stable": "tie-order",
    "right": "search-side",
    "side": "search-side",
    "keepdim": "keepdim-broadcast",
    "reduction": "mean-for-sum",
    "negative_slope": "wrong-slope",
    "alpha": "wrong-coefficient",
    "beta": "wrong-coefficient",
    "training": "running-stats-ignored",
    "p": "wrong-norm-order",
    "ord": "wrong-norm-order",
    "exponent": "wrong-norm-order",
    "value": "wrong-fill-value",
    "fill_value": "wrong-fill-value",
    "padding_mode": "padding-mode",
    "interpolation_mode": "interpolation-mode",
    "include_self": "base-ignored",
    "accumulate": "scatter-overwrites",
    "min": "clamp-bounds",
    "max": "clamp-bounds",
    "threshold": "wrong-slope",
    "ignore_index": "ignored-class-counted",
    "label_smoothing": "smoothing-missing",
}
"""Kind of fault if an argument is changed, by the argument's name."""
_OPERANDS = {
    "div": ("wrong-divisor", "another divisor"),
    "mul": ("wrong-coefficient", "another factor (scale)"),
    "add": ("constant-added", "another number (constant) is added"),
    "sub": ("constant-added", "another number (constant) is subtracted"),
    "rsub": ("constant-added", "subtracted from another number (constant)"),
    "floor_divide": ("wrong-index-base", "another divisor of the index"),
    "remainder": ("wrong-index-base", "another modulus"),
    "gt": ("mask-shifted", "another bound"), "ge": ("mask-shifted", "another bound"),
    "lt": ("mask-shifted", "another bound"), "le": ("mask-shifted", "another bound"),
}  # fmt: skip
"""Kind of fault and its words if an operand is another number, by operator."""
_FILLS = (0.0, 1.0, -1.0, -math.inf, -1e9, 1e-9)


def mutate(groups: Groups, facts: Facts) -> Iterator[Variant]:
    numbers = sorted({v for call in groups.tape.calls for v in call.given.values() if type(v) is float})
    for group in groups.all:
        if group.name in MADE and group.name not in ("full", "arange", "scalar_tensor") or group.of > 40:
            continue
        for argument in group.first.func._schema.arguments:
            name = argument.name
            value = group.first.given.get(name)
            if name in ("alpha", "beta") and value == argument.default_value:
                continue
            if (
                name in _SKIPPED
                or isinstance(value, str)
                or tensors(value)
                or value is None
                and "int" not in str(argument.type)
            ):
                continue
            for other in (*_others(name, value, group), *_near(numbers, value)):
                if other != value:
                    yield from _changed(groups, group, name, value, other)


def _changed(groups: Groups, group: Group, name: str, value: Any, other: Any) -> Iterator[Variant]:
    fallback = "wrong-coefficient" if isinstance(value, float) else "index-off-by-one"
    words = f"with {name} = {_said(other)} in {group.label}; the reference has {_said(value)}"
    kind = KINDS.get(name, fallback)
    if name == "other" and group.name in _OPERANDS:
        kind, said = _OPERANDS[group.name]
        if kind == "constant-added" and roles.counts_places(groups.tape, group.first.given.get("self")):
            kind, said = "index-off-by-one", "places are counted from another one"
        words += f": {said}"
    if type(value) is float and type(other) is float and value and name in ("alpha", "other", "value"):
        variance = _of_variance(value, other) if other / value > 0.5 and other != value else None
        words += ": a variance over n for n - 1, or the reverse (biased)" if variance else ""
        kind = variance or kind
    if kind in ("index-off-by-one", "wrong-index-base", "mask-shifted") and isinstance(value, int):
        words += ": off by one" if isinstance(other, int) and abs(other - value) == 1 else ""
    if name == "training":
        # With `training` changed, the operator may write to running statistics that the reference only reads.
        yield variant(kind, words, group.rewritten(lambda call: _on_copies(call, {name: other})), 6)
    elif len(group.calls) == 1 or all(_same(call.given.get(name), value) for call in group.calls):
        yield variant(kind, words, group.given(name, lambda old: other), 6)
    elif isinstance(value, int) and isinstance(other, int) and abs(other - value) == 1:
        # The number counts the steps: use each step's own number, one more or less, within the range.
        step, numbers = other - value, [call.given[name] for call in group.calls]
        low, high = min(numbers), max(numbers)
        word = "next" if step > 0 else "one before"
        words = f"with the {word} {name} in {group.label}: off by one"
        bounded = lambda old: min(max(old + step, low), high)  # noqa: E731
        yield variant(kind, words, group.given(name, bounded), 6)
        turned = f"with {name} counted from the end in {group.label}: reversed"
        yield variant("scan-reversed", turned, group.given(name, lambda old: low + high - old), 7)


def _same(one: Any, other: Any) -> bool:
    """Return True if two steps of a loop take the same number; tensors never do."""
    return not tensors(one) and bool(one == other)


def _on_copies(call: Call, changes: Arguments) -> Rewrite:
    def run(given: Arguments) -> Any:
        copies = {key: t.clone() if isinstance(t, torch.Tensor) else t for key, t in given.items()}
        return invoke(call.func, copies | changes)

    return run


def _near(numbers: list[float], value: Any) -> list[float]:
    """Return up to four numbers of the run within a factor of two, such as n / (n - 1) times the value."""
    if type(value) is not float or not value:
        return []
    return [number for number in numbers if 0.5 < number / value < 2][:4]


def _of_variance(value: float, other: float) -> str | None:
    """Return the kind of fault if the two numbers differ by a factor n / (n - 1), else None."""
    ratio = other / value
    n = 1 / (1 - ratio) if ratio < 1 else ratio / (ratio - 1)
    if not math.isfinite(n) or n < 3 or abs(n - round(n)) > 1e-6 * n:
        return None
    return "biased-variance" if ratio < 1 else "unbiased-variance"


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _others(name: str, value: Any, group: Group) -> Iterator[Any]:
    """Yield values of the argument's type that may stand in place of its own value."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        if value < 1 << 40:
            yield from dict.fromkeys((value + 1, value - 1, 0, 1, -value, 2 * value, value // 2))
        if name in ("dim", "dim0", "dim1"):
            yield from range(max((t.dim() for t in (group.first.value,) if t is not None), default=0))
    elif isinstance(value, float):
        yield from dict.fromkeys((0.0, 1.0, -value, 2 * value, value / 2, 1 - value, value * value))
        if value > 0:
            yield from (1 / value, math.sqrt(value))
        if name in ("value", "fill_value"):
            yield from _FILLS
    elif isinstance(value, (list, tuple)) and value and all(type(item) is int for item in value):
        yield from _lists(list(value))
        if name == "pad" and len(value) % 2 == 0:
            yield [half for a, b in zip(value[::2], value[1::2], strict=True) for half in _halved(a + b)]
            yield [
                half for a, b in zip(value[::2], value[1::2], strict=True) for half in _halved(a + b)[::-1]
            ]


def _halved(whole: int) -> list[int]:
    return [whole // 2, whole - whole // 2]


def _lists(value: list[int]) -> Iterator[list[int]]:
    for other in (value[::-1], [0] * len(value), [1] * len(value)):
        yield other
    for step in (1, -1):
        yield [item + step for item in value]
        for place in range(len(value)):
            yield [item + step * (k == place) for k, item in enumerate(value)]
    for place in range(len(value) - 1):
        other = list(value)
        other[place], other[place + 1] = other[place + 1], other[place]
        yield other
