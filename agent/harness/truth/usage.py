"""Analysis of a reference's use of its inputs, from the operators that one run calls.

Integers are followed through views, copies and casts to the operators that use them. This gives the size of
the dimension that an index selects from, and the range of the integers that an input is compared with.
Floating-point inputs are followed through scalar affine maps to the thresholds that they are compared with.
Values can then be placed on either side of a threshold.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis.tape import bound
from agent.harness.worker.memory_guards import leaves

MOST_EDGES = 4096
"""Maximum number of elements of a tensor of thresholds."""
_KEEPING = {
    "_to_copy",
    "clone",
    "contiguous",
    "copy",
    "lift_fresh",
    "repeat",
    "cat",
    "bitwise_not",
    "logical_not",
}
"""Operators, besides views, whose result holds the values of their operand."""
_COMPARING = {"eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "clamp", "clamp_min", "clamp_max"}
_UNIQUE = {"scatter", "scatter_", "index_put", "index_put_", "_index_put_impl_", "index_copy", "index_copy_"}
_STEPS = {"round", "floor", "ceil", "trunc"}
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "convolution", "mv", "dot", "linear", "addbmm", "matmul"}
_NON_FINITE = {"nan_to_num", "isnan", "isinf", "isfinite"}
_EDGES = {
    "hardtanh": ("min_val", "max_val"), "clamp": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",),
    "hardshrink": ("lambd",), "softshrink": ("lambd",), "threshold": ("threshold",),
    "bucketize": ("boundaries",), "searchsorted": ("sorted_sequence",),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum", "fmax", "fmin"), ("other",)),
}  # fmt: skip
"""Arguments that are thresholds, by operator."""
_AT_ZERO = {"relu", "leaky_relu", "elu", "celu", "sign", "abs", "sqrt", "log"}
"""Operators with a threshold at zero, which is noted only for shifted inputs."""
_FIXED = {"hardsigmoid": 3.0, "hardswish": 3.0, "relu6": 6.0}


@dataclass
class IntegerUse:
    """Use of one integer or boolean input."""

    bounds: list[int] = field(default_factory=list)
    """Sizes of the dimensions that the input indexes."""
    compared: list[int] = field(default_factory=list)
    """Least and largest values of the integers that the input is compared with."""
    special: set[int] = field(default_factory=set)
    """Values with a special meaning to an operator, such as `ignore_index`."""
    is_unique: bool = False
    """True if the input is an index for writes, so that equal values would write one element twice."""
    is_derived: bool = False
    """True if an integer computed from the input is an index, so that the input's bound is unknown."""
    is_stepped: bool = False
    """True if the input delimits segments, is a bin boundary, or is read as a Python value."""

    @property
    def is_free(self) -> bool:
        """True if no operator bounds the input's values."""
        return not (self.bounds or self.is_derived or self.is_stepped or self.compared)


_DEFAULT_IGNORED = -100
"""Default of torch's `ignore_index`. A reference whose labels never have it does not say that they may."""


class FloatUse(NamedTuple):
    """Use of one floating-point input, with the thresholds it is compared with."""

    exact: list[torch.Tensor]
    """Thresholds that the unchanged input is compared with."""
    mapped: list[float]
    """Thresholds that the scaled or shifted input is compared with, as values of the unchanged input."""
    takes_non_finite: bool
    is_multiplied: bool
    """True if the input is an operand of a matrix product, a convolution or attention."""
    is_stepped: bool
    """True if the input is rounded to integers."""


class Usage(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that records the use of each tensor in `inputs`, by index."""

    def __init__(self, inputs: Iterable[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.integers: dict[int, IntegerUse] = {}
        self.floats: dict[int, FloatUse] = {}
        self._kept: list[torch.Tensor] = []
        """Tensors whose `id` is a key in the maps below, kept alive so that ids stay unique."""
        self._integer_of: dict[int, tuple[int, bool]] = {}
        self._map_of: dict[int, tuple[int, float, float]] = {}
        for number, tensor in enumerate(inputs):
            self._kept.append(tensor)
            if tensor.is_floating_point():
                self.floats[number] = FloatUse([], [], False, False, False)
                self._map_of[id(tensor)] = (number, 1.0, 0.0)
            elif not tensor.is_complex():
                self.integers[number] = IntegerUse()
                self._integer_of[id(tensor)] = (number, True)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **kwargs or {})
        name = str(func._schema.name).split("::")[-1]
        given = bound(func, args, kwargs or {})
        self._note_integers(name, given)
        self._note_floats(name, given)
        self._follow(name, func.is_view or name in _KEEPING, given, result)
        return result

    def _follow(self, name: str, keeps: bool, given: dict[str, Any], result: Any) -> None:
        """Record which input, and which affine map of it, the results of an operator come from."""
        operands, made = leaves(list(given.values())), leaves(result)
        for operand in operands:
            known = self._integer_of.get(id(operand))
            if known is not None:
                for out in made:
                    if not out.is_floating_point():
                        self._keep(out)
                        self._integer_of.setdefault(id(out), (known[0], known[1] and keeps))
            affine = self._map_of.get(id(operand))
            if affine is not None and len(made) == 1 and made[0].is_floating_point():
                new = affine if keeps else _mapped(name, given, operand, affine)
                if new is not None:
                    self._keep(made[0])
                    self._map_of.setdefault(id(made[0]), new)

    def _keep(self, tensor: torch.Tensor) -> None:
        if id(tensor) not in self._integer_of and id(tensor) not in self._map_of:
            self._kept.append(tensor)

    def _note_integers(self, name: str, given: dict[str, Any]) -> None:
        for index, size in _indices(name, given):
            number, is_exact = self._integer_of.get(id(index), (None, False))
            if number is not None:
                use = self.integers[number]
                if index.dtype is not torch.bool:
                    use.bounds.append(size) if is_exact else setattr(use, "is_derived", True)
                use.is_unique |= name in _UNIQUE and not given.get("accumulate", False)
                ignored = given.get("ignore_index")
                if isinstance(ignored, int) and (
                    ignored != _DEFAULT_IGNORED or bool((index == ignored).any())
                ):
                    use.special.add(ignored)
        operands = [value for value in given.values() if isinstance(value, torch.Tensor)]
        for operand in operands:
            number = self._integer_of.get(id(operand), (None, False))[0]
            if number is None or operand.dtype is torch.bool:
                continue
            use = self.integers[number]
            if name in _COMPARING:
                others = [value for value in given.values() if value is not operand]
                use.compared += _extremes(others)
                use.special |= {value for value in others if type(value) is int}
            elif (
                name in ("_local_scalar_dense", "repeat_interleave", "bincount", "nonzero")
                or (name in ("bucketize", "searchsorted") and operand is not given.get("self"))
                or (name == "_embedding_bag" and operand is given.get("offsets"))
                or "shift" in name
            ):
                use.is_stepped = True

    def _note_floats(self, name: str, given: dict[str, Any]) -> None:
        base = name.rstrip("_")
        for operand in leaves(list(given.values())):
            number, factor, offset = self._map_of.get(id(operand), (None, 1.0, 0.0))
            if number is None:
                continue
            use = self.floats[number]
            self.floats[number] = use._replace(
                takes_non_finite=use.takes_non_finite or base in _NON_FINITE,
                is_multiplied=use.is_multiplied or base in _PRODUCTS or "attention" in base,
                is_stepped=use.is_stepped or base in _STEPS,
            )
            edges: list[Any] = [_FIXED[base], -_FIXED[base]] if base in _FIXED else []
            edges += [given.get(key) for key in _EDGES.get(base, ())]
            if base in _AT_ZERO and offset:
                edges.append(0.0)
            if base == "hardshrink" or base == "softshrink":
                edges += [-edge for edge in edges]
            for edge in edges:
                self._note_edge(use, edge, operand, factor, offset)

    def _note_edge(
        self, use: FloatUse, edge: Any, operand: torch.Tensor, factor: float, offset: float
    ) -> None:
        if edge is operand or edge is None or isinstance(edge, bool):
            return
        if isinstance(edge, torch.Tensor):
            if not edge.is_floating_point() or edge.numel() > MOST_EDGES:
                return
            values = edge.detach().reshape(-1)
        else:
            values = torch.tensor([float(edge)], dtype=torch.float64)
        if (factor, offset) == (1.0, 0.0):
            use.exact.append(values.double().cpu())
        elif factor:
            use.mapped.extend(((values.double() - offset) / factor).tolist())


def _indices(name: str, given: dict[str, Any]) -> list[tuple[torch.Tensor, int]]:
    """Return each index tensor of an operator call with the size of the dimension that it indexes."""
    if name in ("embedding", "_embedding_bag", "_embedding_bag_forward_only"):
        return [(given["indices"], given["weight"].shape[0])]
    if name.startswith("nll_loss"):
        rows = given["self"]
        return [(given["target"], rows.shape[1 if rows.dim() > 1 else 0])]
    base = given.get("self")
    if not isinstance(base, torch.Tensor):
        return []
    if isinstance(given.get("indices"), (list, tuple)):
        pairs, place = [], 0
        for index in given["indices"]:
            if index is not None and place < base.dim():
                pairs.append((index, base.shape[place]))
            place += index.dim() if index is not None and index.dtype is torch.bool else 1
        return pairs
    index, dim = given.get("index"), given.get("dim")
    if isinstance(index, torch.Tensor):
        return [(index, base.shape[dim] if isinstance(dim, int) and base.dim() else base.numel())]
    return []


def _extremes(values: Iterable[Any]) -> list[int]:
    """Return the least and the largest element of each tensor in `values`, and each integer."""
    found: list[int] = []
    for value in values:
        if isinstance(value, torch.Tensor) and value.numel() and value.dtype is not torch.bool:
            ends = value.aminmax()
            if bool(torch.isfinite(torch.stack([ends.min, ends.max])).all()):
                found += [int(ends.min), int(ends.max)]
        elif type(value) is int:
            found.append(value)
    return found


def _mapped(
    name: str, given: dict[str, Any], operand: torch.Tensor, affine: tuple[int, float, float]
) -> tuple[int, float, float] | None:
    """Return the affine map from the input after one more operator with a scalar, or None for others."""
    number, factor, offset = affine
    base, other = name.rstrip("_"), given.get("other")
    if base == "neg":
        return number, -factor, -offset
    if isinstance(other, torch.Tensor) and other.dim() == 0 and other is not operand:
        other = float(other)
    if not isinstance(other, (int, float)) or isinstance(other, bool) or given.get("self") is not operand:
        return None
    alpha = given.get("alpha", 1)
    if base == "mul":
        return number, factor * other, offset * other
    if base == "div" and other and given.get("rounding_mode") is None:
        return number, factor / other, offset / other
    if base == "add":
        return number, factor, offset + alpha * other
    if base == "sub":
        return number, factor, offset - alpha * other
    return None
