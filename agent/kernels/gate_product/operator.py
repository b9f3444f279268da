"""SwiGLU and GeGLU of two tensors or two halves: operator `kernelwright::gate_product_forward`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from agent.kernels import routing
from agent.kernels.operators import Direction, Gradient, Operator, Tensors, stream
from agent.kernels.replaying.replayed import replayed
from agent.kernels.small import is_torchs

KERNEL = "gate_product"
ENVELOPE = (
    "any shape; gate and value of one shape and dtype, or the halves of the last dimension of one tensor",
    "rows that are a stride apart, as a chunk of a tensor has them; other layouts are copied",
    "with silu, gelu (erf) or gelu_tanh",
)
ACTS = {"silu": 0, "gelu": 1, "gelu_tanh": 2}
"""Number of each activation in the device code."""
FORWARD = "11q"
BACKWARD = "14q"


@replayed
def gate_product(gate: torch.Tensor, value: torch.Tensor, act: str = "silu") -> torch.Tensor:
    """Return act(gate) * value in one pass; act is silu, gelu or gelu_tanh.

    Falls back to torch and records why if the kernel does not support the call. Raises ValueError for another
    act.
    """
    _checked(act)
    if gate.numel() == 0 or is_torchs(KERNEL, gate, value) or not _takes(gate, value):
        return _activated(gate, act) * value
    return _OPERATOR(gate, value, act, True)


@replayed
def gate_product_halves(x: torch.Tensor, act: str = "silu", gate_first: bool = True) -> torch.Tensor:
    """Return `gate_product` of the halves of the last dimension; `gate_first` says which half is the gate.

    Falls back to torch and records why if the kernel does not support the call. Raises ValueError for another
    act and for a last dimension of odd size.
    """
    _checked(act)
    if x.dim() == 0 or x.shape[-1] % 2:
        raise ValueError(f"the last dimension of {tuple(x.shape)} has no halves")
    if x.numel() == 0 or is_torchs(KERNEL, x) or not routing.takes(KERNEL, x):
        first, second = x.chunk(2, -1)
        gate, value = (first, second) if gate_first else (second, first)
        return _activated(gate, act) * value
    return _OPERATOR(x, None, act, gate_first)


def _checked(act: str) -> None:
    if act not in ACTS:
        raise ValueError(f"act={act!r}: there are {', '.join(ACTS)}")


def _takes(gate: torch.Tensor, value: torch.Tensor) -> bool:
    same = value.shape == gate.shape and value.dtype == gate.dtype and value.device == gate.device
    if not same and not routing.is_disabled():
        routing.fall_back(KERNEL, "gate and value differ in shape, dtype or device")
    return same and routing.takes(KERNEL, gate)


def _activated(gate: torch.Tensor, act: str) -> torch.Tensor:
    if act == "silu":
        return F.silu(gate)
    return F.gelu(gate, approximate="tanh" if act == "gelu_tanh" else "none")


class _Placed(NamedTuple):
    """Gate and value as strided rows; `kept` keeps the memory at their addresses alive."""

    gate: int
    value: int
    rows: int
    length: int
    gate_stride: int
    value_stride: int
    kept: Sequence[torch.Tensor]

    @classmethod
    def of(cls, x: torch.Tensor, value: torch.Tensor | None, gate_first: bool) -> "_Placed":
        """Return the addresses of gate and value. Halves and strided rows are read in place."""
        if value is None:
            x = x.contiguous()
            length = x.shape[-1] // 2
            halves = (x.data_ptr(), x.data_ptr() + length * x.element_size())
            gate, other = halves if gate_first else reversed(halves)
            return cls(gate, other, x.numel() // (2 * length), length, 2 * length, 2 * length, (x,))
        if x.is_contiguous() and value.is_contiguous():
            count = x.numel()
            return cls(x.data_ptr(), value.data_ptr(), 1, count, count, count, (x, value))
        left, right = _as_rows(x), _as_rows(value)
        rows, length = left.shape
        strides = left.stride(0), right.stride(0)
        return cls(left.data_ptr(), right.data_ptr(), rows, length, *strides, kept=(left, right))


def _as_rows(x: torch.Tensor) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1])  # a view wherever there is one
    return rows if rows.stride(1) == 1 else rows.contiguous()


def _launch(
    x: torch.Tensor, value: torch.Tensor | None, act: str, gate_first: bool, statistics: bool = True
) -> Tensors:
    (y,) = _shapes(x, value, act, gate_first)
    placed = _Placed.of(x, value, gate_first)
    device = x.get_device()
    routing.library(KERNEL, device).launch(
        "forward", FORWARD,
        placed.gate, placed.value, y.data_ptr(), placed.rows, placed.length, placed.gate_stride,
        placed.value_stride, ACTS[act], routing.DTYPES[x.dtype], stream(x), device,
    )  # fmt: skip
    return (y,)


def _launch_backward(
    grad: torch.Tensor, x: torch.Tensor, value: torch.Tensor | None, act: str, gate_first: bool,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    grad = grad.contiguous()
    made = _backward_shapes(grad, x, value, act, gate_first, wanted)
    placed = _Placed.of(x, value, gate_first)
    addresses = [one.data_ptr() if want else 0 for one, want in zip(made, wanted, strict=True)]
    step = placed.length
    if value is None:
        halves = [addresses[0], addresses[0] + placed.length * x.element_size()]
        addresses, step = halves if gate_first else halves[::-1], 2 * placed.length
    device = x.get_device()
    routing.library(KERNEL, device).launch(
        "backward", BACKWARD,
        grad.data_ptr(), placed.gate, placed.value, *addresses, placed.rows, placed.length,
        placed.gate_stride, placed.value_stride, step, ACTS[act], routing.DTYPES[x.dtype], stream(x), device,
    )  # fmt: skip
    return made


def _parts(x: torch.Tensor, value: torch.Tensor | None, gate_first: bool) -> list[torch.Tensor]:
    """Return gate and value in the dtype of the computation."""
    parts = list(x.chunk(2, -1)) if value is None else [x, value]
    wide = [part if part.dtype == torch.float64 else part.float() for part in parts]
    return wide if gate_first or value is not None else wide[::-1]


def _compute(
    x: torch.Tensor, value: torch.Tensor | None, act: str, gate_first: bool, statistics: bool = True
) -> Tensors:
    gate, other = _parts(x, value, gate_first)
    return ((_activated(gate, act) * other).to(x.dtype).contiguous(),)


def _compute_backward(
    grad: torch.Tensor, x: torch.Tensor, value: torch.Tensor | None, act: str, gate_first: bool,
    wanted: Sequence[bool],
) -> Tensors:  # fmt: skip
    gate, other = _parts(x, value, gate_first)
    given = grad.to(gate.dtype)
    if act == "silu":
        of_gate = torch.ops.aten.silu_backward(given * other, gate)
    else:
        form = "tanh" if act == "gelu_tanh" else "none"
        of_gate = torch.ops.aten.gelu_backward(given * other, gate, approximate=form)
    made = [of_gate, given * _activated(gate, act)]
    if value is None:
        made = [torch.cat(made if gate_first else made[::-1], -1), x.new_empty(0)]
    shapes = _backward_shapes(grad, x, value, act, gate_first, wanted)
    return tuple(
        one.to(x.dtype).contiguous() if want else shape
        for one, shape, want in zip(made, shapes, wanted, strict=True)
    )


def _shapes(x: torch.Tensor, value: Any, act: str, gate_first: bool) -> Tensors:
    shape = x.shape if value is not None else (*x.shape[:-1], x.shape[-1] // 2)
    return (x.new_empty(shape),)


def _backward_shapes(
    grad: Any, x: torch.Tensor, value: Any, act: str, gate_first: bool, wanted: Sequence[bool]
) -> Tensors:
    return tuple(x.new_empty(x.shape if want else 0) for want in wanted)


def _saved(inputs: Sequence[Any], results: Tensors) -> Sequence[torch.Tensor | None]:
    return tuple(inputs[:2])


def _gradients(
    saved: Sequence[Any], settings: Sequence[Any], needed: Sequence[bool], grad: torch.Tensor
) -> Sequence[Any]:
    x, value = saved
    wanted = [needed[0], needed[1] and value is not None]
    made = _OPERATOR.backward(grad, x, value, *settings[2:4], wanted)
    return (*(one if want else None for one, want in zip(made, wanted, strict=True)), None, None)


_OPERATOR = Operator(
    KERNEL,
    Direction(
        "(Tensor x, Tensor? value, str act, bool gate_first) -> Tensor",
        cpu=_compute, cuda=_launch, fake=_shapes,
    ),
    Direction(
        "(Tensor grad, Tensor x, Tensor? value, str act, bool gate_first, bool[] wanted)"
        " -> (Tensor, Tensor)",
        cpu=_compute_backward, cuda=_launch_backward, fake=_backward_shapes,
    ),
    Gradient(_saved, _gradients),
)  # fmt: skip
SCHEMAS = _OPERATOR.schemas
