"""Record a forward pass operator by operator while it runs on fake or real tensors.

`Recorder` is a dispatch mode. Entered inside `FakeTensorMode` (or over real tensors), it sees every operator
below autograd and writes one `Operation` for each. It leaves out views of parameters, whose name then stands
in the consumer's operand, views that change nothing, and fresh tensors that nobody reads. It does not run the
reference and knows nothing of files or processes. Imports torch: for the tracing child only.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from pydantic import JsonValue
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, shape_wrapper

from agent.records import Operation, TensorSpec

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_MOVES = frozenset(
    {"_to_copy", "_unsafe_view", "cat", "clone", "copy", "copy_", "embedding", "fill_", "gather", "index"}
    | {"index_select", "repeat", "roll", "stack", "flip", "constant_pad_nd", "zeros_like", "ones_like"}
)
"""Operators that only move or fill data and count no floating-point operations."""


def _recurrent_layer_flops(x: torch.Size, *weights_and_states: Any, out_val: Any = None, **_: Any) -> int:
    """Return two FLOPs per weight, time step and sample; `x` has the shape (steps, batch, features)."""
    to_gates, between_steps = weights_and_states[:2]
    return 2 * int(x[0] * x[1]) * int(math.prod(to_gates) + math.prod(between_steps))


def _recurrent_flops(x: torch.Size, states: Any, weights: Any, *_: Any, **__: Any) -> int:
    """Return two FLOPs per weight, time step and sample; `x` is (steps, batch, features), or batch first."""
    return 2 * int(x[0] * x[1]) * sum(int(math.prod(weight)) for weight in weights if len(weight) == 2)


_FORMULAS: Mapping[Any, Callable[..., int]] = {
    **cast(Mapping[Any, Callable[..., int]], flop_registry),
    torch.ops.aten.mkldnn_rnn_layer: shape_wrapper(_recurrent_layer_flops),  # type: ignore[no-untyped-call]
    **{
        getattr(torch.ops.aten, name): shape_wrapper(_recurrent_flops)  # type: ignore[no-untyped-call]
        for name in ("gru", "lstm", "rnn_tanh", "rnn_relu")
    },
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: flop_registry[
        torch.ops.aten._scaled_dot_product_flash_attention
    ],
}
"""FLOP formulas: torch's for products, convolutions and attention, and our own for recurrent layers."""
_LOOKUPS = frozenset({"embedding", "gather", "index", "index_select"})
"""Operators that read only as much of their first operand as they write."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that records operators while active; `state` maps state_dict names to the tensors."""

    def __init__(self, state: Mapping[str, torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self._paused = False
        self._names: dict[int, str] = {}
        self._made: dict[int, int | None] = {}
        self._written: dict[int, int] = {}
        self._reads: dict[int, dict[tuple[Any, ...], int]] = {}
        # Tensors are compared by address, so none of them may be freed while recording.
        self._alive: list[torch.Tensor] = list(state.values())
        for name, tensor in state.items():
            self._names.setdefault(_storage(tensor), name)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func.namespace != "prim" and not self._paused:
            self.record(func, args, kwargs, result)
        return result

    def spec(self, tensor: torch.Tensor) -> TensorSpec:
        """Return shape and dtype; a parameter, a buffer or a view of one carries its state_dict name."""
        return TensorSpec(
            shape=tuple(int(size) for size in tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            name=self._names.get(_storage(tensor)),
        )

    def bytes_read(self, tensor: torch.Tensor) -> int:
        """Return the bytes of `tensor`, an input or a parameter, that operators read at least once."""
        reads = self._reads.get(_storage(tensor), {})
        return min(sum(reads.values()), _footprint(tensor))

    def finished(self, outputs: Sequence[torch.Tensor]) -> tuple[Operation, ...]:
        """Return the operations in order, without fresh tensors that no operator and no output uses."""
        used = {source for operation in self.operations for source in operation.takes_result_of}
        used |= {self._source(tensor) for tensor in outputs}
        kept = [index for index, op in enumerate(self.operations) if op.inputs or index in used]
        places: dict[int | None, int] = {index: place for place, index in enumerate(kept)}
        return tuple(
            operation.model_copy(
                update={"takes_result_of": tuple(places.get(s) for s in operation.takes_result_of)}
            )
            for operation in (self.operations[index] for index in kept)
        )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend recording inside the context."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def record(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Record one operator with its operands and results."""
        operands = _tensors((args, kwargs))
        outputs = _tensors(result)
        self._alive += [*operands, *outputs]
        if _is_view(func) and operands and self._is_dull(operands[0], outputs):
            for output in outputs:
                self._made[id(output)] = self._source(operands[0])
            return
        sources = tuple(self._source(operand) for operand in operands)
        self.operations.append(self._operation(func, args, kwargs, result).model_copy(
            update={"takes_result_of": sources}
        ))  # fmt: skip
        index = len(self.operations) - 1
        if not _is_view(func):
            self._note_reads(func, operands, outputs)
            for tensor in [*outputs, *_mutated(func, args, kwargs)]:
                self._written[_storage(tensor)] = index
        for output in outputs:
            self._made[id(output)] = index

    def _is_dull(self, base: torch.Tensor, outputs: Sequence[torch.Tensor]) -> bool:
        of_parameter = _storage(base) in self._names
        return of_parameter or all(
            output.shape == base.shape and output.stride() == base.stride() for output in outputs
        )

    def _source(self, tensor: torch.Tensor) -> int | None:
        written = self._written.get(_storage(tensor))
        made = self._made.get(id(tensor))
        if made is None or written is None:
            return written if made is None else made
        return max(made, written)

    def _note_reads(
        self, func: OpOverload, operands: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> None:
        for place, tensor in enumerate(operands):
            size = _footprint(tensor)
            if place == 0 and _name(func) in _LOOKUPS:
                size = min(size, sum(_footprint(output) for output in outputs))
            window = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
            self._reads.setdefault(_storage(tensor), {})[window] = size

    def _operation(
        self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> Operation:
        operands, outputs = _tensors((args, kwargs)), _tensors(result)
        view = _is_view(func)
        written = [] if view else [*outputs, *_mutated(func, args, kwargs)]
        unique = {id(tensor): _footprint(tensor) for tensor in written}
        return Operation(
            op=_name(func),
            overload=str(func),
            inputs=tuple(self.spec(operand) for operand in operands),
            outputs=tuple(self.spec(output) for output in outputs),
            attributes=_attributes(func, args, kwargs),
            flops=0 if view else _flops(func, args, kwargs, result),
            bytes=0 if view else sum(_footprint(operand) for operand in operands) + sum(unique.values()),
            broadcast=_broadcast(func, operands, outputs),
        )


def _name(func: OpOverload) -> str:
    return func._schema.name.split("::")[-1]


def _storage(tensor: torch.Tensor) -> int:
    return cast(int, tensor.untyped_storage()._cdata)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _footprint(tensor: torch.Tensor) -> int:
    """Return the bytes behind a tensor; elements repeated by an expanded or sliding view count once."""
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or not size]
    return min(math.prod(sizes) * tensor.element_size(), int(tensor.untyped_storage().nbytes()))


def _is_view(func: OpOverload) -> bool:
    return func.is_view or _name(func) in {"_unsafe_view", "_reshape_alias"}


def _arguments(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Return every schema argument with its value in this call."""
    return [
        (argument, args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value))
        for place, argument in enumerate(func._schema.arguments)
    ]


def _mutated(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    return [
        tensor
        for argument, value in _arguments(func, args, kwargs)
        if argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _tensors(value)
    ]


def _attributes(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, JsonValue]:
    return {
        argument.name: json_value(value)
        for argument, value in _arguments(func, args, kwargs)
        if not (isinstance(value, torch.Tensor) or (isinstance(value, (list, tuple)) and _tensors(value)))
    }


def json_value(value: Any) -> JsonValue:
    """Return `value` as JSON that survives a round trip: dtypes by name, tensors by shape, others as repr."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format, torch.device)):
        return str(value).removeprefix("torch.")
    return repr(value)


def _flops(func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """Return the FLOPs by formula, 0 for moves, and one FLOP per element read for all other operators."""
    formula = _FORMULAS.get(func.overloadpacket)
    if formula is not None:
        return int(formula(*args, **kwargs, out_val=result))
    if _name(func) in _MOVES:
        return 0
    return sum(operand.numel() for operand in _tensors((args, kwargs)))


def _broadcast(
    func: OpOverload, operands: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> str | None:
    name = _name(func)
    if not operands or not outputs:
        return None
    if name in {"addmm", "baddbmm", "expand"}:
        operands = operands[:1]
    elif torch.Tag.pointwise not in func.tags:
        return None
    shapes = [tuple(operand.shape) for operand in operands]
    if all(shape == tuple(outputs[0].shape) for shape in shapes):
        return None
    sign = f" {_SIGNS[name.rstrip('_')]} " if name.rstrip("_") in _SIGNS else ", "
    return f"{sign.join(map(str, shapes))} -> {tuple(outputs[0].shape)}"
