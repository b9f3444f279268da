"""Search for a range of values, or of a maximum's position, that tells wrong elements from right ones.

It is used where no mask of the reference tells them apart.
"""

from collections.abc import Iterator

import torch

from agent.diagnosis.mismatch.distinguishing import LEAST
from agent.diagnosis.mismatch.matching import Target
from agent.diagnosis.tape import MOVES, Call, Tape

Tensor = torch.Tensor
APART = 10.0
"""Minimum ratio of the error of nearly every wrong element to the largest error of a right one.

At a smaller ratio, an error that only grows with a value would also seem to depend on a range.
"""
SMALLEST = 0.05
"""Share of the wrong elements whose errors may be smaller, since they are nearly right by chance."""
BY_CHANCE = 0.01
"""Maximum share of elements that are right although their value is in the range of wrong ones."""
MOST = 80
"""Maximum number of the reference's intermediate values that are tested."""
ROWS = ("_softmax", "_log_softmax", "logsumexp", "amax", "max", "argmax")
"""Operators that take the maximum of rows."""


def describe_range(tape: Tape, target: Target) -> str | None:
    """Return words that complete "the wrong elements are ...", or None if no range is known."""
    wrong = target.wrong.reshape(target.shape)
    if min(int(wrong.sum()), int((~wrong).sum())) < LEAST or not _apart(target):
        return None
    for words, position in _maxima(tape):
        spread = _spread(position, wrong.shape)
        least = None if spread is None else _from(spread, wrong)
        if least is not None and least > 0:
            return f"where {words} comes at index {int(least)} or later"
    for words, value in _values(tape):
        spread = _spread(value, wrong.shape)
        told = None if spread is None else _range(spread, wrong)
        if told is not None:
            return f"where {words} is {told}"
    return None


def _apart(target: Target) -> bool:
    error = (target.y - target.truth).abs().nan_to_num(posinf=1e300, nan=1e300)
    wrong = error[target.wrong].sort().values
    return float(wrong[int(SMALLEST * wrong.numel())]) >= APART * float(error[~target.wrong].max())


def _maxima(tape: Tape) -> Iterator[tuple[str, Tensor]]:
    """Yield words and positions of the maximum of each row, for every operator that takes one."""
    for call in tape.calls:
        x, dim = call.given.get("self"), call.given.get("dim")
        dim = dim[0] if isinstance(dim, (list, tuple)) and len(dim) == 1 else dim
        if call.name in ROWS and isinstance(x, Tensor) and type(dim) is int and x.dim():
            words = f"the maximum of a row of {call.name.strip('_')} along dim {dim % x.dim()}"
            yield words, x.argmax(dim, keepdim=True)


def _values(tape: Tape) -> Iterator[tuple[str, Tensor]]:
    """Yield inputs and parameters by name, then values computed from them."""
    seen: set[int] = set()
    for call in tape.calls:
        for given in call.given.values():
            name = tape.name(given) if isinstance(given, Tensor) and id(given) not in seen else None
            if name is not None and _is_number(given):
                seen.add(id(given))
                yield f"`{name}`", given
    computed = [call for call in tape.calls if call.value is not None and call.name not in MOVES]
    for call in computed[:MOST]:
        if call.value is not None and _is_number(call.value):
            yield _called(call), call.value


def _is_number(tensor: Tensor) -> bool:
    return tensor.numel() > 1 and tensor.dtype is not torch.bool and not tensor.is_complex()


def _called(call: Call) -> str:
    line = f" (`{call.place.text}`)" if call.place is not None and call.place.text else ""
    return f"the result of {call.name.strip('_')}{line}"


def _spread(value: Tensor, shape: torch.Size) -> Tensor | None:
    """Expand a value over the output's elements, by torch's broadcasting or as one number for each row."""
    rows = (
        value.reshape(*value.shape, *[1] * (len(shape) - value.dim())) if value.dim() < len(shape) else value
    )
    for one in (value, rows):
        try:
            return one.expand(shape)
        except RuntimeError:
            continue
    return None


def _from(value: Tensor, wrong: Tensor) -> float | None:
    """Return the value from which on nearly all elements are wrong, or None."""
    least = value[wrong].min()
    return float(least) if float(((value >= least) & ~wrong).double().mean()) <= BY_CHANCE else None


def _range(value: Tensor, wrong: Tensor) -> str | None:
    bad, good = value[wrong].detach().double(), value[~wrong].detach().double()
    if not bool(torch.isfinite(bad).all() and torch.isfinite(good).all()):
        return None
    low, high = float(good.min()), float(good.max())
    if float(bad.min()) > high:
        return f"above {high:.4g}" if high else "positive"
    if float(bad.max()) < low:
        return f"below {low:.4g}" if low else "negative"
    if bool(((bad < low) | (bad > high)).all()):
        return f"other than {low:.4g}" if low == high else f"outside of {low:.4g} to {high:.4g}"
    first, last = float(bad.min()), float(bad.max())
    if bool(((good < first) | (good > last)).all()):
        return f"{first:.4g}" if first == last else f"from {first:.4g} to {last:.4g}"
    return None
