"""Description of the wrong elements of an output in one or two sentences.

Covers non-finite values, constant outputs, and the place and size of other errors. Causes are not searched
here.
"""

import torch

from agent.records import Finding

PIECE = 1 << 26


def non_finite(y: torch.Tensor, native: torch.Tensor) -> Finding | None:
    """Report NaN or infinity where the native run has none, or the reverse."""
    given, expected = torch.isfinite(y), torch.isfinite(native)
    wrong = given != expected
    both = ~given & ~expected
    wrong |= both & (torch.isnan(y) != torch.isnan(native))
    wrong |= both & torch.isinf(y) & (y.sign() != native.sign())
    count = _count(wrong)
    if count == 0:
        return None
    first = _index(wrong)
    share = f"{count} of {wrong.numel()} elements"
    evidence = f"first at {first}: got {_number(y[first])}, expected {_number(native[first])}"
    if bool((torch.isnan(y) | ~wrong).all()):
        message = (
            f"{share} are NaN where the reference is finite, first at {first}: never written, read from "
            "memory nothing wrote, or 0/0, inf-inf, sqrt or log of a negative number."
        )
        return Finding(kind="nan-output", message=message, evidence=evidence)
    message = f"{share} differ from the reference in being finite, first at {first}."
    return Finding(kind="non-finite-output", message=message, evidence=evidence)


def explain(y: torch.Tensor, truth: torch.Tensor, wrong: torch.Tensor | None) -> Finding:
    """Return the finding for an output outside its error budget.

    `wrong` marks the elements outside the budget; None when only the rms over all elements is too large.
    """
    if wrong is None:
        message = (
            "Every element is within its own limit but the errors add up: the rms error is above 8 times "
            "PyTorch's own."
        )
        return Finding(kind="precision-loss", message=message)
    count, total = _count(wrong), wrong.numel()
    first = _index(wrong)
    worst = _worst(y, truth, wrong)
    evidence = "\n".join(
        [f"{name} {at}: got {_number(y[at])}, expected {_number(truth[at])}"
         for name, at in (("first", first), ("worst", worst))]
    )  # fmt: skip
    if bool((y == y.reshape(-1)[0]).all()) and total > 1:
        message = f"The output is {_number(y.reshape(-1)[0])} everywhere; the reference's varies."
        return Finding(kind="constant-output", message=message, evidence=evidence)
    share = f"{count} of {total} elements ({100 * count / total:.3g} %)"
    message = f"{share} are outside the error budget, first at {first}; {_where(wrong)}."
    return Finding(kind="wrong-values", message=message, evidence=evidence)


def _where(wrong: torch.Tensor) -> str:
    """Describe the smallest box of indices that holds every wrong element."""
    if bool(wrong.all()):
        return "they are spread over the whole output"
    parts = []
    for axis in range(wrong.dim()):
        others = [other for other in range(wrong.dim()) if other != axis]
        hit = wrong.amax(dim=others).nonzero().reshape(-1) if others else wrong.nonzero().reshape(-1)
        low, high = int(hit[0]), int(hit[-1])
        if hit.numel() < wrong.shape[axis]:
            whole = high - low + 1 == hit.numel()
            parts.append(f"dim {axis} only {low}..{high}{'' if whole else f' ({hit.numel()} indices)'}")
    return "all in " + ", ".join(parts) if parts else "they reach every index of every dimension"


def _worst(y: torch.Tensor, truth: torch.Tensor, wrong: torch.Tensor) -> tuple[int, ...]:
    """Return the index of the largest error, in pieces since a float64 copy of an output may not fit."""
    largest, position = -1.0, 0
    flat, true, marked = y.reshape(-1), truth.reshape(-1), wrong.reshape(-1)
    for begin in range(0, flat.numel(), PIECE):
        piece = slice(begin, begin + PIECE)
        error = (flat[piece].double() - true[piece].double()).abs().nan_to_num()
        error = torch.where(marked[piece], error, -1.0)
        here = int(error.argmax())
        if float(error[here]) > largest:
            largest, position = float(error[here]), begin + here
    return unravelled(position, y.shape)


def _count(mask: torch.Tensor) -> int:
    """Count the marked elements, in pieces since a sum takes eight bytes per element."""
    flat = mask.reshape(-1)
    return sum(int(flat[begin : begin + PIECE].sum()) for begin in range(0, flat.numel(), PIECE))


def _index(mask: torch.Tensor) -> tuple[int, ...]:
    """Return the index of the first marked element."""
    flat = mask.reshape(-1)
    for begin in range(0, flat.numel(), PIECE):
        piece = flat[begin : begin + PIECE]
        if bool(piece.any()):
            return unravelled(begin + int(piece.to(torch.uint8).argmax()), mask.shape)
    raise ValueError("no element is marked")


def unravelled(position: int, shape: torch.Size | tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the element at a flat position."""
    place = []
    for size in reversed(shape):
        position, here = divmod(position, size)
        place.append(here)
    return tuple(reversed(place))


def _number(value: torch.Tensor) -> str:
    return f"{float(value):.7g}" if value.is_floating_point() else str(value.item())
