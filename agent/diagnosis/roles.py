"""The role of a value in the reference, which decides what a change of it is called.

A change that reproduces the wrong output is described truthfully under any name, but its kind must be the one
that a reader expects. An element subtracted from its own running sum is no residual but the element itself. A
factor that comes from a condition is no scale but a mask.
"""

from typing import Any

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.tape import MOVES, Call, Tape

Tensor = torch.Tensor
STILL = MOVES | {
    "expand", "permute", "transpose", "t", "squeeze", "unsqueeze", "reshape", "flip", "slice", "select",
}  # fmt: skip
"""Operators that compute nothing new; a flip around a scan only sets the scan's direction."""
COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
CONDITIONS = COMPARISONS | {
    "logical_and",
    "logical_or",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_not",
}
SCANS = frozenset({"cumsum", "cumprod", "logcumsumexp"})
READS = frozenset({"index", "gather", "index_select", "embedding", "take"})
"""Operators that read the elements selected by an index."""
WRITES = frozenset(
    {"scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_put", "index_fill"}
)
"""Operators that write the elements selected by an index."""
_BOUNDS = frozenset({"clamp", "clamp_min", "clamp_max", "maximum", "minimum"})
_ALONE = frozenset({"mul", "relu", "abs", "sign", "clamp", "clamp_min", "sqrt", "pow"})
STEPS = 40
"""Maximum number of calls that are followed back or forth from a value."""


def source(tape: Tape, tensor: Any) -> tuple[Call | None, Any]:
    """Return the call that computed a value, skipping views and moves, and the tensor it returned.

    The call is None if the value is a leaf, which is returned in place of the result.
    """
    for _ in range(STEPS):
        call = tape.maker(tensor)
        if call is None or not (call.is_view or call.name in STILL):
            return call, tensor
        earlier = next((t for t in tensors(call.given)), None)
        before = tape.maker(earlier)
        if earlier is None or before is not None and before.number >= call.number:
            return call, tensor
        tensor = earlier
    return None, tensor


def made_by(tape: Tape, tensor: Any, names: frozenset[str], far: int = 4) -> bool:
    """Return True if an operator in `names` computed the tensor, at most a few elementwise operators back."""
    now = [tensor]
    for _ in range(far):
        calls = [call for call in (source(tape, t)[0] for t in now) if call is not None]
        if any(call.name in names for call in calls):
            return True
        now = [t for call in calls if call.name in _ALONE for t in tensors(call.given)]
    return False


def scan_with(tape: Tape, scanned: Any, mine: Any) -> str | None:
    """Return the scan operator that computed `scanned` from `mine` itself, or None."""
    call = source(tape, scanned)[0]
    if call is None or call.name not in SCANS:
        return None
    return call.name if source(tape, call.given["self"])[1] is source(tape, mine)[1] else None


def is_mask(factor: Any) -> bool:
    """Return True if the factor holds only zeros and ones, and both of them."""
    if not isinstance(factor, Tensor) or factor.numel() < 2:
        return False
    return bool(((factor == 0) | (factor == 1)).all() and (factor != factor.reshape(-1)[0]).any())


def from_condition(tape: Tape, tensor: Any) -> bool:
    """Return True if the value is a condition or a condition converted to a number."""
    call, leaf = source(tape, tensor)
    return (leaf.dtype is torch.bool if isinstance(leaf, Tensor) else False) or (
        call is not None and (call.name in CONDITIONS or is_mask(leaf))
    )


def is_place(tape: Tape, tensor: Any) -> bool:
    """Return True if the tensor holds integer positions computed from `arange`."""
    if not isinstance(tensor, Tensor) or tensor.is_floating_point() or tensor.dtype is torch.bool:
        return False
    left, seen = [tensor], 0
    while left and seen < STEPS:
        seen += 1
        call = source(tape, left.pop())[0]
        if call is not None and call.name == "arange":
            return True
        if call is not None and not call.func._schema.is_mutable:
            left += [t for t in tensors(call.given) if not t.is_floating_point()]
    return False


def is_fraction(tape: Tape, tensor: Any) -> bool:
    """Return True if the tensor is the fractional part of a position."""
    call = source(tape, tensor)[0]
    if call is None or call.name not in ("sub", "frac"):
        return False
    whole = source(tape, call.given.get("other"))[0]
    while whole is not None and whole.name in (*_BOUNDS, "_to_copy"):
        whole = source(tape, whole.given["self"])[0]
    return call.name == "frac" or whole is not None and whole.name in ("floor", "trunc")


def are_segments(tape: Tape, scan: Call) -> bool:
    """Return True if an integer running sum numbers segments: it is only compared or used as an index."""
    if scan.name != "cumsum" or not isinstance(scan.result, Tensor) or scan.result.is_floating_point():
        return False
    left, seen = list(tape.users(scan)), set()
    while left:
        call = left.pop()
        if call.number in seen:
            continue
        seen.add(call.number)
        if call.is_view or call.name in STILL or call.name in ("sub", "add", "index", "gather"):
            left += tape.users(call) if not call.name.startswith(("index", "gather")) else []
        elif call.name not in COMPARISONS and "scatter" not in call.name and "index" not in call.name:
            return False
    return bool(seen)


def has_complement(tape: Tape, share: Call) -> bool:
    """Return True if one minus the value is used as well, so that both are the weights of a mix."""
    users, seen = list(tape.users(share)), 0
    while users and seen < STEPS:
        seen += 1
        call = users.pop()
        if call.name == "rsub" and call.given.get("other") == 1:
            return True
        if call.is_view or call.name in STILL:
            users += tape.users(call)
    return False


def becomes_whole(tape: Tape, call: Call) -> bool:
    """Return True if the result is converted to an integer right after."""
    return any(map(cuts, tape.users(call)))


def cuts(call: Call) -> bool:
    """Return True if the call converts fractions to integers."""
    counted = call.value is not None and not call.value.is_floating_point()
    return call.name in ("floor", "trunc", "ceil", "round") or call.name == "_to_copy" and counted


def is_before(tape: Tape, old: Any, new: Any, far: int = 8) -> bool:
    """Return True if `new` is computed from `old` within a few steps."""
    now = [new]
    for _ in range(far):
        calls = [call for call in map(tape.maker, now) if call is not None]
        now = [t for call in calls for t in tensors(call.given) if t.numel() >= old.numel()][:STEPS]
        if any(t is old for t in now):
            return True
    return False


def is_returned(tape: Tape, tensor: Any) -> bool:
    """Return True if the value is one of several results, such as a state passed to the next step."""
    results = tensors(tape.result)
    leaf = source(tape, tensor)[1]
    return len(results) > 1 and any(source(tape, result)[1] is leaf for result in results)


def is_update(tape: Tape, old: Any, new: Any) -> bool:
    """Return True if `new` is the given value `old` after an update, computed from it by a sum.

    Both may be multiplied by the same number.
    """
    one, other = source(tape, old)[0], source(tape, new)[0]
    if one is not None and other is not None and one.name == other.name == "mul":
        factors = one.given.get("other"), other.given.get("other")
        if all(isinstance(factor, float) for factor in factors) and factors[0] == factors[1]:
            return is_update(tape, one.given["self"], other.given["self"])
    if tape.name(old) is None or not isinstance(new, Tensor) or old.shape != new.shape:
        return False
    if is_returned(tape, new) and is_before(tape, old, new):
        return True
    call = source(tape, new)[0]
    if call is None or call.name not in ("add", "sub", "lerp", "where", "maximum", "addcmul"):
        return False
    parts = [t for operand in tensors(call.given) for t in (operand, *_factors(tape, operand))]
    return any(source(tape, part)[1] is source(tape, old)[1] for part in parts)


def _factors(tape: Tape, product: Any) -> list[Any]:
    call = source(tape, product)[0]
    return tensors(call.given) if call is not None and call.name == "mul" else []


def between(tape: Tape, earlier: Any, later: Any, far: int = 6) -> list[Call]:
    """Return the chain of calls that computes `later` from `earlier`, the last call first."""
    made: list[Call] = []
    now, wanted = later, source(tape, earlier)[1]
    for _ in range(far):
        call, leaf = source(tape, now)
        if call is None or leaf is wanted:
            break
        made.append(call)
        before = [t for t in tensors(call.given) if _is_of(tape, t, wanted, far)]
        if len(before) != 1:
            return []
        now = before[0]
    return made if source(tape, now)[1] is wanted else []


def _is_of(tape: Tape, value: Any, wanted: Any, far: int) -> bool:
    """Return True if the value is the wanted one or computed from it within a few steps."""
    now = [value]
    for _ in range(far):
        found = [source(tape, t) for t in now]
        if any(leaf is wanted for _, leaf in found):
            return True
        now = [t for call, _ in found if call is not None for t in tensors(call.given)][:STEPS]
    return False


def masks(tape: Tape, call: Call) -> bool:
    """Return True if the call only masks elements by a condition."""
    if call.name in ("masked_fill", "where"):
        return True
    return call.name == "mul" and any(from_condition(tape, t) for t in tensors(call.given))


def chooses(call: Call, argument: str) -> bool:
    """Return True if the argument selects the elements that are read or written."""
    return argument in ("index", "indices") and call.name in READS | WRITES


def bounds_masks(tape: Tape, takers: list[Call]) -> bool:
    """Return True if these calls compare, or if their results are later only compared."""
    left, seen, compared = list(takers), set[int](), False
    while left and len(seen) < STEPS:
        call = left.pop()
        if call.number in seen:
            continue
        seen.add(call.number)
        if call.name in COMPARISONS:
            compared = True
        elif call.is_view or call.name in STILL or call.name in ("add", "sub", "rsub", "abs"):
            left += tape.users(call)
        else:
            return False
    return compared


def counts_places(tape: Tape, tensor: Any) -> bool:
    """Return True if the tensor counts positions, possibly scaled.

    Positions come from `arange`, with sums and products of numbers.
    """
    for _ in range(STEPS):
        call, leaf = source(tape, tensor)
        if call is None or call.name == "arange":
            return call is not None
        operands = [t for t in tensors(call.given) if t.dim()]
        if call.name not in ("add", "sub", "mul", "div", "_to_copy") or len(operands) != 1:
            return False
        tensor = operands[0]
    return False


LEFT_OUT = {
    "sqrt": "root-omitted", "log": "log-missing", "square": "square-omitted", "clamp": "clamp-missing",
    "clamp_min": "clamp-missing", "clamp_max": "clamp-missing", "relu": "activation-missing",
    "gelu": "activation-missing", "silu": "activation-missing", "tanh": "activation-missing",
    "sigmoid": "activation-missing", "elu": "activation-missing", "leaky_relu": "activation-missing",
    "softplus": "activation-missing", "hardtanh": "activation-missing", "mish": "activation-missing",
}  # fmt: skip
"""Kind of fault when an operator is left out, for operators with a kind of their own."""
