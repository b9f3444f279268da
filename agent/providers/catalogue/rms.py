"""Recognition of RMSNorm in a trace by its data flow.

RMSNorm is x * rsqrt(mean(x^2) + eps) over the trailing dimensions, optionally times a weight. Torch traces
it, `torch.rms_norm` included, to five or six operators. The square may be a power or a product.
"""

from agent.records import Operation, TensorSpec, Trace

_INPUT = None
"""Value of `takes_result_of` for the reference's input and for parameters."""


class NotRmsNorm(Exception):
    """Raised for a trace that is not an RMSNorm."""


def read(trace: Trace) -> tuple[TensorSpec | None, int, float]:
    """Return the weight, the number of normalised trailing dimensions, and eps. Raises NotRmsNorm."""
    if len(trace.operations) not in (5, 6):
        raise NotRmsNorm
    square, mean, shifted, root, scaled, *weighted = trace.operations
    _require(bool(square.inputs))
    x = square.inputs[0]
    _require(x.name is None and _is_square(square, x))
    _require(mean.op == "mean" and mean.takes_result_of == (0,) and mean.attributes["keepdim"] is True)
    _require(shifted.op in ("add", "add_") and shifted.takes_result_of == (1,))
    _require(shifted.attributes.get("alpha", 1) == 1)
    _require(root.op == "rsqrt" and root.takes_result_of == (2,))
    _require(_is_product(scaled, 3, x))
    weight = None
    if weighted:
        _require(_is_product(weighted[0], 4, None))
        (weight,) = (tensor for tensor in weighted[0].inputs if tensor.name is not None)
    dims = _trailing(mean.attributes["dim"], len(x.shape))
    _require(weight is None or weight.shape == x.shape[len(x.shape) - dims :])
    eps = shifted.attributes.get("other")
    _require(isinstance(eps, (int, float)))
    assert isinstance(eps, (int, float))
    return weight, dims, float(eps)


def _is_square(operation: Operation, x: TensorSpec) -> bool:
    if operation.op == "pow":
        return operation.attributes.get("exponent") == 2 and operation.takes_result_of == (_INPUT,)
    both = operation.inputs == (x, x) and operation.takes_result_of == (_INPUT, _INPUT)
    return operation.op == "mul" and both


def _is_product(operation: Operation, of: int, x: TensorSpec | None) -> bool:
    """Return True for a product of result number `of` and the input `x`, in either order.

    Without `x`, the other factor has to be a parameter.
    """
    if operation.op != "mul" or sorted(map(str, operation.takes_result_of)) != sorted(("None", str(of))):
        return False
    other = operation.inputs[operation.takes_result_of.index(_INPUT)]
    return other.name is not None if x is None else other == x


def _trailing(dims: object, rank: int) -> int:
    """Return the number of dimensions. Raises NotRmsNorm unless they are the trailing ones."""
    _require(isinstance(dims, list) and bool(dims))
    assert isinstance(dims, list)
    places = sorted(int(str(dim)) % rank for dim in dims)
    _require(places == list(range(rank - len(places), rank)))
    return len(places)


def _require(fits: bool) -> None:
    if not fits:
        raise NotRmsNorm
