"""Explanation of a wrong shape: the operators that lead to the expected shape, and the likely slip."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mutations import parameters
from agent.diagnosis.mutations.groups import Groups
from agent.diagnosis.tape import MOVES, Call, Tape
from agent.diagnosis.wrong_references import Facts
from agent.records import Finding

LINES = 12
"""Maximum number of operators of the chain shown; the last ones are kept."""
UNFIT = (RuntimeError, LookupError, ValueError, TypeError)
"""Exceptions of an operator that cannot take a changed number."""
LIKELY = ("keepdim", "ceil_mode", "output_padding", "padding", "pad", "output_size", "stride", "dilation")
"""Arguments by which shapes differ, the likelier first."""
Shape = tuple[int, ...]


def explain(tape: Tape, given: Shape, wanted: Shape, finding: Finding) -> Finding:
    """Return the finding for a wrong shape with its cause in the message and the chain as evidence."""
    chain = list(_chain(tape))
    shown = chain[-LINES:]
    left_out = [f"... ({len(chain) - len(shown)} operators before)"] if len(chain) > len(shown) else []
    message = finding.message
    broadcast = next((_broadcast(call) for call in reversed(tape.calls) if _broadcast(call)), None)
    if broadcast is not None:
        message += f" The reference broadcasts {broadcast}: shapes are aligned from the right."
    slip = _slip(tape, given, wanted)
    message += f" The given shape is the reference's {slip}." if slip else _difference(given, wanted, tape)
    message += "".join(f" {formula}." for formula in _formulas(tape, given, wanted))
    return finding.model_copy(update={"message": message, "evidence": "\n".join([*left_out, *shown])})


def _slip(tape: Tape, given: Shape, wanted: Shape) -> str | None:
    """Return the change of one number of one operator that gives the candidate's shape, or None."""
    variants = list(parameters.mutate(Groups(tape), Facts((), ())))
    for variant in sorted(variants, key=lambda variant: _unlikely(variant.words)):
        try:
            made = tensors(tape.again(variant.rewrites, variant.replaced))
        except UNFIT:
            continue
        shapes = [tuple(t.shape) for t in made]
        if given in shapes and wanted not in shapes:
            return variant.words
    return None


def _unlikely(words: str) -> int:
    name = words.removeprefix("with ").split(" ")[0]
    return LIKELY.index(name) if name in LIKELY else len(LIKELY)


def _formulas(tape: Tape, given: Shape, wanted: Shape) -> Iterator[str]:
    """Yield the window formulas of expected sizes that the candidate's shape lacks, with the likely slips."""
    missing = {size for size in wanted if size not in given}
    for call in reversed(tape.calls):
        windows = _windows(call)
        result = next((t for t in tensors(call.result)), None)
        if windows is None or result is None or not missing & set(result.shape[-len(windows) :]):
            continue
        operand = tensors(call.given)[0]
        for place, window in enumerate(windows):
            axis = place - len(windows)
            size, made = operand.shape[axis], result.shape[axis]
            if made in missing:
                here = given[axis] if len(given) == len(wanted) and wanted[axis] == made else None
                yield _formula(call, axis, window.of(size)) + _slipped(window, size, made, here)
        return


class _Window(NamedTuple):
    """The parameters of a window operator along one dimension."""

    kernel: int
    stride: int
    padding: int
    dilation: int
    output_padding: int = 0
    ceil: bool = False
    transposed: bool = False

    def of(self, size: int) -> tuple[str, int]:
        """Return the formula with its numbers, and its result for an input of this size."""
        reach = self.dilation * (self.kernel - 1)
        span = f"{self.dilation} * ({self.kernel} - 1)"
        if self.transposed:
            made = (size - 1) * self.stride - 2 * self.padding + reach + self.output_padding + 1
            shown = f"({size} - 1) * {self.stride} - 2 * {self.padding} + {span} + {self.output_padding} + 1"
            return shown, made
        room = size + 2 * self.padding - reach - 1
        rounded = "ceil" if self.ceil else "floor"
        steps = -(-room // self.stride) if self.ceil else room // self.stride
        formula = f"{rounded}(({size} + 2 * {self.padding} - {span} - 1) / {self.stride}) + 1"
        if self.ceil and steps * self.stride >= size + self.padding:
            # Torch leaves out a last window that begins beyond the input and its left padding.
            return f"{formula} - 1", steps
        return formula, steps + 1

    def slips(self) -> Iterator[tuple[str, "_Window"]]:
        """Yield common slips: parameters that are forgotten or confused."""
        yield "without padding", self._replace(padding=0)
        yield "with dilation 1", self._replace(dilation=1)
        yield "with stride 1", self._replace(stride=1)
        yield "with the size of the window as the stride", self._replace(stride=self.kernel)
        yield "without output_padding", self._replace(output_padding=0)
        if not self.transposed:
            yield f"rounded {'down' if self.ceil else 'up'}", self._replace(ceil=not self.ceil)
            yield "as of the transposed operator", self._replace(transposed=True)
        else:
            yield "as of the operator that is not transposed", self._replace(transposed=False)
        for amount in (-1, 1):
            yield f"with padding {self.padding + amount}", self._replace(padding=self.padding + amount)
            yield f"with a window of {self.kernel + amount}", self._replace(kernel=self.kernel + amount)


def _formula(call: Call, axis: int, formula: tuple[str, int]) -> str:
    shown, made = formula
    names = "kernel, stride, padding, dilation"
    if call.given.get("transposed"):
        names = "kernel, stride, padding, dilation, output_padding"
    window = (_windows(call) or [])[axis]
    numbers = ", ".join(f"{name} {value}" for name, value in zip(names.split(", "), window, strict=False))
    return f"Right is {shown} = {made} for dim {axis} of {call.name} ({numbers})"


def _slipped(window: _Window, size: int, right: int, given: int | None) -> str:
    """Describe the slip that leads to the candidate's size `given`; empty if there is none."""
    if given is None or given == right:
        return ""
    for words, slip in window.slips():
        if slip != window and min(slip.stride, slip.padding + 1) > 0 and slip.of(size)[1] == given:
            return f"; {words} it is {given}"
    if given == right - 1:
        return f"; without the + 1 it is {given}"
    return f"; {given} is the input's own size" if given == size else ""


def _windows(call: Call) -> list[_Window] | None:
    """Return a window for each dimension; None for operators without windows."""
    given = call.given
    if not {"stride", "padding"} <= given.keys():
        return None
    kernel = given.get("kernel_size")
    kernel = tuple(given["weight"].shape[2:]) if kernel is None and "weight" in given else kernel
    if not kernel or not isinstance(given["padding"], (list, tuple)):
        return None
    dims, transposed = len(kernel), bool(given.get("transposed"))
    more = given.get("output_padding") if transposed else None
    lists = [kernel, given["stride"] or kernel, given["padding"], given.get("dilation") or [1], more or [0]]
    numbers = zip(*[(list(one) * dims)[:dims] for one in lists], strict=True)
    ceil = bool(given.get("ceil_mode"))
    return [_Window(*each)._replace(ceil=ceil, transposed=transposed) for each in numbers]


def _chain(tape: Tape) -> Iterator[str]:
    for call in tape.calls:
        if call.name in MOVES and not call.is_view:
            continue
        for result in tensors(call.result)[:1]:
            step = _broadcast(call)
            operands = ", ".join(str(tuple(t.shape)) for t in tensors(call.given))
            yield f"{call.name.strip('_')}: {step or f'{operands} -> {tuple(result.shape)}'}"


def _broadcast(call: Call) -> str | None:
    """Describe operands of different shapes that an elementwise operator broadcasts, or return None."""
    operands = [t for name, t in call.given.items() if name in ("self", "other", "tensor1", "tensor2")
                and isinstance(t, torch.Tensor) and t.dim()]  # fmt: skip
    if (
        len(operands) < 2
        or not isinstance(call.result, torch.Tensor)
        or call.name in ("mm", "bmm", "mv", "dot")
    ):
        return None
    shapes = [tuple(t.shape) for t in operands]
    if len(set(shapes)) < 2:
        return None
    return f"{' with '.join(map(str, shapes))} -> {tuple(call.result.shape)}"


def _difference(given: Shape, wanted: Shape, tape: Tape) -> str:
    without_ones = [size for size in given if size > 1], [size for size in wanted if size > 1]
    if without_ones[0] == without_ones[1]:
        more = "has dims of size 1 too many" if len(given) > len(wanted) else "lacks dims of size 1"
        same = "has its dims of size 1 elsewhere" if len(given) == len(wanted) else more
        return f" The given shape {same}, as after another keepdim or squeeze."
    if sorted(given) == sorted(wanted):
        return " The given shape has the same dims in another order."
    stage = next(
        (c for c in reversed(tape.calls) if c.value is not None and tuple(c.value.shape) == given), None
    )
    if stage is not None:
        return f" The given shape is that of the result of {stage.name.strip('_')}, an earlier step."
    return ""
