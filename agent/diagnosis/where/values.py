"""Intermediate values of the reference, each with a name that its author recognises."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.mismatch import matching
from agent.diagnosis.tape import MOVES, Call, Tape

Tensor = torch.Tensor
MOST = 400
"""Maximum number of intermediate values collected."""
MOST_ELEMENTS = 1 << 22
_ASSIGNED = re.compile(r"^([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")
_NORMS = {"native_layer_norm": 1, "native_group_norm": 1}


class Value(NamedTuple):
    """An intermediate value of the reference, or one of its inputs or parameters."""

    tensor: Tensor
    call: Call
    words: str
    """Name of the variable, or the operator that computed it."""
    line: int | None
    """Line of the reference that computes the value."""
    is_result: bool
    """True if the call returns the value; False if it is an intermediate result inside the call."""

    @property
    def told(self) -> str:
        return f"{self.words} (line {self.line})" if self.line is not None else self.words


def list_values(tape: Tape, outputs: list[Tensor]) -> list[Value]:
    """Return each distinct value in order of computation, without inputs, parameters and `outputs`."""
    known = {_key(t) for t in outputs}
    known |= {_key(t) for call in tape.calls for t in tensors(call.given) if tape.maker(t) is None}
    found: list[Value] = []
    for call in tape.calls:
        for value in (*_results(call, tape), *_on_the_way(call)):
            if not 0 < value.tensor.numel() <= MOST_ELEMENTS or value.tensor.is_complex():
                continue
            key = _key(value.tensor)
            if key not in known and matching.telling(value.tensor.detach().reshape(-1).double()):
                known.add(key)
                found.append(value)
                if len(found) == MOST:
                    return found
    return found


def taken(tape: Tape) -> list[Value]:
    """Return the inputs, parameters and constants that the reference uses."""
    found: dict[int, Value] = {}
    for call in tape.calls:
        for tensor in tensors(call.given):
            if tape.maker(tensor) is None and tensor.numel() and not tensor.is_complex():
                found.setdefault(
                    id(tensor), Value(tensor, call, tape.name(tensor) or "a constant", None, False)
                )
    return list(found.values())


def _results(call: Call, tape: Tape) -> Iterator[Value]:
    if call.name in MOVES or call.is_view:
        return
    words, line = _named(call, tape)
    for number, tensor in enumerate(tensors(call.result)):
        # Only the first of several results bears the operator's name.
        told = words if number == 0 else f"result {number} of {call.name.strip('_')}"
        value = (
            call.value
            if number == 0 and call.value is not None and call.value.shape == tensor.shape
            else tensor
        )
        yield Value(value, call, told, line, number == 0)


def _named(call: Call, tape: Tape) -> tuple[str, int | None]:
    """Return the variable that the line assigns if the call is its last, else the operator; and the line."""
    operator = f"the result of {call.name.strip('_')}"
    if call.place is None:
        return operator, None
    last = tape.once(_last_of_lines)
    assigned = _ASSIGNED.match(call.place.text)
    if assigned and last.get((call.place.file, call.place.line)) == call.number:
        return f"`{assigned.group(1)}`", call.place.line
    return operator, call.place.line


def _last_of_lines(tape: Tape) -> dict[tuple[str, int], int]:
    """Return the number of the last computing call of each line."""
    return {
        (call.place.file, call.place.line): call.number
        for call in tape.calls
        if call.place is not None and call.name not in MOVES and not call.is_view
    }


def _on_the_way(call: Call) -> Iterator[Value]:
    """Yield values that an operator computes internally, such as row maxima, sums, means and variances."""
    given, line = call.given, call.place.line if call.place is not None else None
    x, dim = given.get("self"), given.get("dim")
    if call.name in ("_softmax", "_log_softmax", "logsumexp") and isinstance(x, Tensor) and dim is not None:
        name = call.name.strip("_")
        most = x.amax(dim, keepdim=True)
        yield Value(most, call, f"the maximum of {name}", line, False)
        total = (x - most).exp().sum(dim, keepdim=True)
        yield Value(total, call, f"the sum of exponentials of {name}", line, False)
    if call.name in ("mean", "var", "std", "var_mean") and isinstance(x, Tensor) and x.is_floating_point():
        axes = _axes(dim, x)
        if call.name != "mean":
            mean = x.mean(axes, keepdim=True)
            yield Value(mean, call, f"the mean of {call.name}", line, False)
    for reciprocal in tensors(call.result)[2:3] if call.name in _NORMS else ():
        eps = float(given["eps"])
        yield Value(reciprocal.pow(-2) - eps, call, "the variance", line, False)


def _axes(dim: Any, x: Tensor) -> Any:
    return list(range(x.dim())) if dim is None else dim


def _key(tensor: Tensor) -> tuple[Any, ...]:
    """Return a key that distinguishes tensors by a sample of their elements, in memory order."""
    flat = tensor.detach().reshape(-1)
    step = max(1, flat.numel() // 64)
    return flat.numel(), flat.dtype.is_floating_point, flat[::step].double().numpy().tobytes()
