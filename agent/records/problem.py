"""Reference of a problem, and the results of tracing it."""

from math import prod
from typing import Annotated

from pydantic import Field, JsonValue

from agent.records.base import Record, digest

DTYPE_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip


class TensorSpec(Record):
    """Shape and dtype of a tensor; `name` is set where the tensor is a parameter or a buffer."""

    shape: tuple[int, ...]
    dtype: str
    """Name of the dtype in torch, without the `torch.` prefix."""
    name: str | None = None

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * DTYPE_BYTES.get(self.dtype, 4)


class Operation(Record):
    """One operator call of the reference's forward, in execution order."""

    op: str
    """ATen name of the operator without namespace and overload, such as `native_group_norm`."""
    overload: str
    """Full name of the operator, such as `aten.native_group_norm.default`."""
    inputs: tuple[TensorSpec, ...]
    """Tensor operands in schema order; a parameter carries its state_dict name."""
    outputs: tuple[TensorSpec, ...]
    attributes: dict[str, JsonValue]
    """Every non-tensor argument with its value, defaults included; an absent tensor argument is None."""
    flops: int
    """Number of floating-point operations; elementwise and reduction operators count one per element read."""
    bytes: int
    """Minimum memory traffic of this operator in bytes: each operand read once, each output written once."""
    broadcast: str | None = None
    """Broadcast of the operands, `(2, 1) + (1, 3, 1, 1) -> (1, 3, 2, 1)`; None if there is none."""
    takes_result_of: tuple[int | None, ...] = ()
    """Index of the operation that made each tensor operand; None for an input or a parameter."""


class Trace(Record):
    """Operations of the reference, found by running it on fake tensors."""

    operations: tuple[Operation, ...]
    inputs: tuple[Annotated[TensorSpec | JsonValue, Field(union_mode="left_to_right")], ...]
    """Result of `get_inputs()`; a non-tensor input stands as its value."""
    init_inputs: tuple[JsonValue, ...]
    """Result of `get_init_inputs()`; values that are not JSON stand as their repr."""
    outputs: tuple[TensorSpec, ...]
    state: tuple[TensorSpec, ...]
    """Parameters and buffers in `state_dict` order, each with its name."""
    flops: int
    min_bytes: int
    """Minimum memory traffic of the problem in bytes: inputs, parameters and outputs each moved once."""


class Problem(Record):
    """Reference file that was read and traced."""

    name: str
    """Name of a shipped problem, such as `level1/group_norm`, or the file's name without its suffix."""
    source: str
    """Python source with Model, get_inputs and get_init_inputs."""
    trace: Trace

    @property
    def id(self) -> str:
        return digest(self.source)[:16]
