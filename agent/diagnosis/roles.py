"""What a value is for in the reference: the role decides what a change of it is called.

A change that gives the wrong output is true in its words, whatever it is called; its kind has to be the one
that a reader expects. What is subtracted from its own running sum is no residual but the element itself, and
a factor that comes from a condition is no scale but a mask.
"""

from typing import Any

import torch

from agent.diagnosis.graph import tensors
from agent.diagnosis.tape import MOVES, Call, Tape

Tensor = torch.Tensor
STILL = MOVES | {
    "expand", "permute", "transpose", "t", "squeeze", "unsqueeze", "reshape", "flip", "slice", "select",
}  # fmt: skip
"""Operators that compute nothing; a flip around a scan is its direction."""
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
"""Operators that read the elements that an index says."""
WRITES = frozenset(
    {"scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_put", "index_fill"}
)
"""Operators that write to them."""
_BOUNDS = frozenset({"clamp", "clamp_min", "clamp_max", "maximum", "minimum"})
_ALONE = frozenset({"mul", "relu", "abs", "sign", "clamp", "clamp_min", "sqrt", "pow"})
STEPS = 40
"""Calls that are followed back, at most."""


def source(tape: Tape, tensor: Any) -> tuple[Call | None, Any]:
    """What computed the value, through what only moves it; no call, and the leaf, where nothing did."""
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
    """Whether one of these operators made it, but for a few operators of one element each after it."""
    now = [tensor]
    for _ in range(far):
        calls = [call for call in (source(tape, t)[0] for t in now) if call is not None]
        if any(call.name in names for call in calls):
            return True
        now = [t for call in calls if call.name in _ALONE for t in tensors(call.given)]
    return False


def scan_with(tape: Tape, scanned: Any, mine: Any) -> str | None:
    """The running operation whose result the first value is, where it runs over the second one itself."""
    call = source(tape, scanned)[0]
    if call is None or call.name not in SCANS:
        return None
    return call.name if source(tape, call.given["self"])[1] is source(tape, mine)[1] else None


def is_mask(factor: Any) -> bool:
    """Whether it is of zeros and ones alone, and of both."""
    if not isinstance(factor, Tensor) or factor.numel() < 2:
        return False
    return bool(((factor == 0) | (factor == 1)).all() and (factor != factor.reshape(-1)[0]).any())


def from_condition(tape: Tape, tensor: Any) -> bool:
    """Whether the value is a condition, or that as a number."""
    call, leaf = source(tape, tensor)
    return (leaf.dtype is torch.bool if isinstance(leaf, Tensor) else False) or (
        call is not None and (call.name in CONDITIONS or is_mask(leaf))
    )


def is_place(tape: Tape, tensor: Any) -> bool:
    """Whether it counts places: made of `arange` by whole numbers."""
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
    """Whether it is what is left of a place beside the whole number below it."""
    call = source(tape, tensor)[0]
    if call is None or call.name not in ("sub", "frac"):
        return False
    whole = source(tape, call.given.get("other"))[0]
    while whole is not None and whole.name in (*_BOUNDS, "_to_copy"):
        whole = source(tape, whole.given["self"])[0]
    return call.name == "frac" or whole is not None and whole.name in ("floor", "trunc")


def are_segments(tape: Tape, scan: Call) -> bool:
    """Whether a running sum of whole numbers numbers segments: it is compared, or an index, and no number."""
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
    """Whether one less the value is taken as well: both are the weights of a mix."""
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
    """Whether the result is cut to a whole number right after."""
    return any(map(cuts, tape.users(call)))


def cuts(call: Call) -> bool:
    """Whether it makes whole numbers of others."""
    counted = call.value is not None and not call.value.is_floating_point()
    return call.name in ("floor", "trunc", "ceil", "round") or call.name == "_to_copy" and counted


def is_before(tape: Tape, old: Any, new: Any, far: int = 8) -> bool:
    """Whether the second value is made of the first one, a few steps later."""
    now = [new]
    for _ in range(far):
        calls = [call for call in map(tape.maker, now) if call is not None]
        now = [t for call in calls for t in tensors(call.given) if t.numel() >= old.numel()][:STEPS]
        if any(t is old for t in now):
            return True
    return False


def is_returned(tape: Tape, tensor: Any) -> bool:
    """Whether the value is one of several results: a state that the next step is given."""
    results = tensors(tape.result)
    leaf = source(tape, tensor)[1]
    return len(results) > 1 and any(source(tape, result)[1] is leaf for result in results)


def is_update(tape: Tape, old: Any, new: Any) -> bool:
    """Whether the second value is the first one, which is given, after an update: made of it by a sum.

    Both may be multiplied with the same number.
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
    """What computes the second value from the first, one call after the other, the last one first."""
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
    """Whether the value is the wanted one or made of it, a few steps later."""
    now = [value]
    for _ in range(far):
        found = [source(tape, t) for t in now]
        if any(leaf is wanted for _, leaf in found):
            return True
        now = [t for call, _ in found if call is not None for t in tensors(call.given)][:STEPS]
    return False


def masks(tape: Tape, call: Call) -> bool:
    """Whether the call only takes some elements out by a condition."""
    if call.name in ("masked_fill", "where"):
        return True
    return call.name == "mul" and any(from_condition(tape, t) for t in tensors(call.given))


def chooses(call: Call, argument: str) -> bool:
    """Whether the argument says which elements are read or written."""
    return argument in ("index", "indices") and call.name in READS | WRITES


def bounds_masks(tape: Tape, takers: list[Call]) -> bool:
    """Whether these calls compare, or what is made of them later is compared and nothing else."""
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
    """Whether it counts places, whole or not: made of `arange` by sums and products with numbers."""
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
"""What it is called that an operator is left out, where it has a name of its own."""
