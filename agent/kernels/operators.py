"""One shape for every operator: a forward that returns its statistics, and a backward that uses them.

Each is registered with `torch.library` under the namespace `kernelwright` (schema, CPU and CUDA
implementations, fake, autograd), so that torch.compile, opcheck, vmap's errors and modes see an operator of
torch's own kind. A call in plain eager mode takes the same functions without the dispatcher (ADR 12). The
CPU implementation is the formula in torch's operators: it exists to be compared with, not to be fast.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from agent.kernels import routing

NAMESPACE = "kernelwright"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")

Tensors = tuple[torch.Tensor, ...]
Implementation = Callable[..., Tensors]


@dataclass(frozen=True)
class Direction:
    """Forward or backward of one operator."""

    schema: str
    """Arguments and results, `(Tensor x, ...) -> (Tensor, Tensor)`; a single result is `-> Tensor`."""
    cpu: Implementation
    cuda: Implementation
    fake: Implementation
    """Shapes, strides, dtypes and devices of the results; computes nothing."""


@dataclass(frozen=True)
class Gradient:
    """How a backward call follows from a forward one."""

    saved: Callable[[Sequence[Any], Tensors], Sequence[torch.Tensor | None]]
    """Tensors to keep, of the forward's arguments and results."""
    backward: Callable[
        [Sequence[torch.Tensor | None], Sequence[Any], Sequence[bool], torch.Tensor], Sequence[Any]
    ]
    """(saved tensors, arguments that are no tensors, which arguments want a gradient, gradient of the first
    result) -> one gradient for each argument."""


class Operator:
    """An operator whose first result is its value and whose others are statistics without a gradient."""

    def __init__(self, name: str, forward: Direction, backward: Direction, gradient: Gradient) -> None:
        self._forward = forward
        self._gradient = gradient
        self.forward = _registered(f"{name}_forward", forward)
        self._backward = backward
        self._dispatched_backward = _registered(f"{name}_backward", backward)
        torch.library.register_autograd(
            f"{NAMESPACE}::{name}_forward", self._differentiated, setup_context=self._kept, lib=_LIBRARY
        )
        torch.library.register_autograd(f"{NAMESPACE}::{name}_backward", _refusing(name), lib=_LIBRARY)
        self._direct = self._function(name)

    @property
    def schemas(self) -> tuple[str, str]:
        """Of the forward and the backward direction, as torch.library has them."""
        return str(self.forward._schema), str(self._dispatched_backward._schema)

    def __call__(self, *arguments: Any) -> torch.Tensor:
        """The value, by the shortest way that gives the same result and gradient."""
        if not torch.compiler.is_compiling():
            tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
            if routing.is_eager(tensors):
                if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
                    return self._direct(*arguments)
                return self._implementation(tensors[0])(*arguments, statistics=False)[0]
            routing.refuse_forward_mode(tensors)
        return _several(self.forward(*arguments))[0]

    def backward(self, grad: torch.Tensor, *arguments: Any) -> Tensors:
        """All results of the backward direction, by the shortest way."""
        if not torch.compiler.is_compiling():
            tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
            if not torch.is_grad_enabled() and routing.is_eager((grad, *tensors)):
                return (self._backward.cuda if grad.is_cuda else self._backward.cpu)(grad, *arguments)
        return _several(self._dispatched_backward(grad, *arguments))

    def _implementation(self, x: torch.Tensor) -> Implementation:
        return self._forward.cuda if x.is_cuda else self._forward.cpu

    def _kept(self, ctx: Any, inputs: Sequence[Any], output: torch.Tensor | Tensors) -> None:
        ctx.save_for_backward(*self._gradient.saved(inputs, _several(output)))
        ctx.settings = [None if isinstance(value, torch.Tensor) else value for value in inputs]
        ctx.set_materialize_grads(False)

    def _differentiated(self, ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        if grads[0] is None:
            return (None,) * len(ctx.settings)
        return tuple(self._gradient.backward(ctx.saved_tensors, ctx.settings, ctx.needs_input_grad, grads[0]))

    def _function(self, name: str) -> Callable[..., torch.Tensor]:
        """The same gradient as a function of autograd, for calls without the dispatcher."""
        operator = self

        def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
            tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
            results = operator._implementation(tensors[0])(*arguments)
            operator._kept(ctx, arguments, results)
            return results[0]

        @once_differentiable
        def backward(ctx: Any, grad: torch.Tensor | None) -> Any:
            return operator._differentiated(ctx, grad)

        body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        made: Any = type(name, (torch.autograd.Function,), body)
        applied: Callable[..., torch.Tensor] = made.apply
        return applied


def stream(x: torch.Tensor) -> int:
    """Handle of the stream that torch would launch on for `x`."""
    # As Inductor's own code asks for it; `torch.cuda.current_stream` makes an object, at ten times the cost.
    handle: int = torch._C._cuda_getCurrentRawStream(x.device.index)
    return handle


def address(tensor: torch.Tensor | None) -> int:
    """Of the tensor's first element; 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def matrix(x: torch.Tensor, dim: int) -> tuple[int, int, int]:
    """Sizes of a contiguous x as [outer, length, inner], where length is that of `dim`."""
    dim %= x.dim()
    length, inner = x.shape[dim], 1
    for size in x.shape[dim + 1 :]:
        inner *= size
    return x.numel() // (length * inner), length, inner


def _registered(name: str, direction: Direction) -> Any:
    _LIBRARY.define(f"{name}{direction.schema}")
    given = _one if direction.schema.endswith("-> Tensor") else _as_it_is
    _LIBRARY.impl(name, given(direction.cpu), "CPU")
    _LIBRARY.impl(name, given(direction.cuda), "CUDA")
    torch.library.register_fake(f"{NAMESPACE}::{name}", given(direction.fake), lib=_LIBRARY)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _one(implementation: Implementation) -> Callable[..., torch.Tensor]:
    return lambda *arguments: implementation(*arguments)[0]


def _as_it_is(implementation: Implementation) -> Implementation:
    return implementation


def _several(results: torch.Tensor | Tensors) -> Tensors:
    """A schema has no tuple of one."""
    return (results,) if isinstance(results, torch.Tensor) else results


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            f"{name}: it is differentiable once; for a gradient of a gradient set AGENT_KERNELS_DISABLE=1"
        )

    return refuse
