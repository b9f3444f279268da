"""Base of all operators: a forward that also returns statistics, and a backward that uses them.

Each direction is registered with `torch.library` under the namespace `kernelwright`: schema, CPU and CUDA
implementations, fake implementation, autograd. So torch.compile, opcheck, vmap's errors and modes see an
ordinary operator. A call in plain eager mode uses the same functions without the dispatcher (ADR 12). The CPU
implementation is the formula in torch's operators, for comparison and not for speed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch.autograd.function import once_differentiable

from agent.kernels import routing
from agent.kernels.replaying import watching
from agent.kernels.replaying.replayed import Function
from agent.kernels.replaying.watching import StreamHandle

NAMESPACE = "kernelwright"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")

Tensors = tuple[torch.Tensor, ...]
Gradients = tuple[torch.Tensor | None, ...]
"""Results of a backward direction: None, or an empty tensor, for unwanted gradients."""
R = TypeVar("R", bound=Gradients)


@dataclass(frozen=True)
class Direction(Generic[R]):
    """Forward or backward of one operator."""

    schema: str
    """Arguments and results, `(Tensor x, ...) -> (Tensor, Tensor)`; a single result is `-> Tensor`.

    Tensors precede all other arguments."""
    cpu: Callable[..., R]
    cuda: Callable[..., R]
    fake: Callable[..., R]
    """Function that returns uncomputed results with the right shapes, strides, dtypes and devices."""

    @property
    def tensors(self) -> int:
        """Return the number of tensor arguments, optional ones included."""
        return self.schema.partition("->")[0].count("Tensor")


@dataclass(frozen=True)
class Gradient:
    """Connection between a forward call and its backward call."""

    saved: Callable[[Sequence[Any], Tensors], Sequence[torch.Tensor | None]]
    """(arguments, results of the forward) -> tensors to keep for the backward."""
    backward: Callable[[Sequence[torch.Tensor | None], Sequence[Any], Sequence[bool], Any], Sequence[Any]]
    """(saved tensors, arguments that are no tensors, arguments that want a gradient, gradient of the value)
    -> one gradient for each argument. With several values, their gradients are a tuple, with None for unused
    values."""


class Operator:
    """Operator whose first result is its value; all further results are statistics without a gradient.

    An operator with several values returns its `values` values before the statistics, and is called by
    `several`.
    """

    def __init__(
        self,
        name: str,
        forward: Direction[Tensors],
        backward: Direction[Gradients],
        gradient: Gradient,
        values: int = 1,
    ) -> None:
        self.name = name
        self._forward, self._tensors, self._values = forward, forward.tensors, values
        self._no_tensors = (None,) * self._tensors
        self._gradient = gradient
        self.forward = _registered(f"{name}_forward", forward)
        self._backward, self._backward_tensors = backward, backward.tensors
        self._dispatched_backward = _registered(f"{name}_backward", backward)
        torch.library.register_autograd(
            f"{NAMESPACE}::{name}_forward", self.differentiated, setup_context=self._kept, lib=_LIBRARY
        )
        torch.library.register_autograd(f"{NAMESPACE}::{name}_backward", _refusing(name), lib=_LIBRARY)
        self._direct = self._function(name)
        self._eager = Function(self._by_python)

    @property
    def schemas(self) -> tuple[str, str]:
        """Return the schemas of forward and backward, as torch.library has them."""
        return str(self.forward._schema), str(self._dispatched_backward._schema)

    def __call__(self, *arguments: Any) -> torch.Tensor:
        """Return the value, by the shortest path that gives the same result and gradient."""
        if torch.compiler.is_compiling():
            return _several(self.forward(*arguments))[0]
        value: torch.Tensor = self._eager.call(*arguments)
        return value

    def several(self, *arguments: Any) -> Tensors:
        """Return all values of an operator that has several, by the shortest path."""
        if torch.compiler.is_compiling():
            return _several(self.forward(*arguments))[: self._values]
        values: Tensors = self._eager.call(*arguments)
        return values

    def _by_python(self, *arguments: Any) -> Any:
        """Return the result of the autograd function: the value, or a tuple of several values."""
        tensors = arguments[: self._tensors]
        if not routing.is_eager(tensors):
            routing.refuse_forward_mode(tensors)
            made = _several(self.forward(*arguments))
        elif torch.is_grad_enabled() and _wants_gradient(tensors):
            return self._direct(*arguments)
        else:
            made = self._implementation(arguments[0])(*arguments, statistics=False)
        return made[0] if self._values == 1 else made[: self._values]

    def backward(self, grad: torch.Tensor, *arguments: Any) -> Gradients:
        """Return all results of the backward direction, by the shortest path."""
        if not torch.compiler.is_compiling():
            tensors = (grad, *arguments)[: self._backward_tensors]
            if not torch.is_grad_enabled() and routing.is_eager(tensors):
                return _watched(self._backward, grad)(grad, *arguments)
        return _several(self._dispatched_backward(grad, *arguments))

    def _implementation(self, x: torch.Tensor) -> Callable[..., Tensors]:
        return _watched(self._forward, x)

    def _kept(self, ctx: Any, inputs: Sequence[Any], output: torch.Tensor | Tensors) -> None:
        results = _several(output)
        saved = self._gradient.saved(inputs, results)
        ctx.save_for_backward(*saved)
        ctx.settings = self._no_tensors + tuple(inputs[self._tensors :])
        ctx.set_materialize_grads(False)
        recorder = watching.recorder()
        if recorder is not None:
            recorder.kept(self, inputs[: self._tensors], saved, results[: self._values], ctx.settings)

    def differentiated(self, ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        """Return one gradient or None for each argument, from the saved context of a forward call."""
        grad: Any = grads[0] if self._values == 1 else grads[: self._values]
        if grad is None or (self._values > 1 and all(one is None for one in grad)):
            return (None,) * len(ctx.settings)
        return tuple(self._gradient.backward(ctx.saved_tensors, ctx.settings, ctx.needs_input_grad, grad))

    def _function(self, name: str) -> Callable[..., Any]:
        """Return an autograd function with the same gradient, for calls without the dispatcher."""
        operator = self

        def forward(ctx: Any, *arguments: Any) -> torch.Tensor | Tensors:
            results = operator._implementation(arguments[0])(*arguments)
            operator._kept(ctx, arguments, results)
            return results[0] if operator._values == 1 else results[: operator._values]

        once = once_differentiable(operator.differentiated)

        def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
            # once_differentiable costs more than the call it guards, and matters only while a graph is built.
            return (once if torch.is_grad_enabled() else operator.differentiated)(ctx, *grads)

        body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        function: Any = torch.autograd.Function
        # Skip Function.apply, which handles functional transforms: `routing.is_eager` has excluded those.
        below: Any = super(function, type(name, (function,), body))
        applied: Callable[..., Any] = below.apply
        return applied


def on_device(x: torch.Tensor) -> bool:
    """Return True if the kernel computes for x, and False if the formula on the CPU does."""
    return x.is_cuda


def stream(x: torch.Tensor) -> int:
    """Return the handle of the stream on which torch would launch for `x`."""
    # Inductor's code uses this function too. `torch.cuda.current_stream` builds an object, at ten times the
    # cost.
    handle: int = torch._C._cuda_getCurrentRawStream(x.get_device())
    return handle if watching.recorder() is None else StreamHandle(handle)


def address(tensor: torch.Tensor | None) -> int:
    """Return the address of the tensor's first element, or 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def matrix(x: torch.Tensor, dim: int) -> tuple[int, int, int]:
    """Return the sizes of a contiguous x as [outer, length, inner], where length is that of `dim`."""
    dim %= x.dim()
    length, inner = x.shape[dim], 1
    for size in x.shape[dim + 1 :]:
        inner *= size
    return x.numel() // (length * inner), length, inner


def _watched(direction: Direction[R], x: torch.Tensor) -> Callable[..., R]:
    """Return the implementation for x, wrapped by the recorder if the current call is being recorded."""
    chosen, device = (direction.cuda, "cuda") if on_device(x) else (direction.cpu, "cpu")
    if torch.is_autocast_enabled(device):
        chosen = _in_its_dtypes(chosen, device)
    recorder = watching.recorder()
    return chosen if recorder is None else recorder.watched(chosen)


def _in_its_dtypes(implementation: Callable[..., R], device: str) -> Callable[..., R]:
    """Return the implementation with autocast off.

    Autocast would change the dtypes of torch's operators that the implementation calls.
    """

    def call(*arguments: Any, **named: Any) -> R:
        with torch.autocast(device, enabled=False):
            return implementation(*arguments, **named)

    return call


def _wants_gradient(tensors: Sequence[torch.Tensor | None]) -> bool:
    for tensor in tensors:  # noqa: SIM110  # a generator would cost more than the checks
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def _registered(name: str, direction: Direction[Any]) -> Any:
    _LIBRARY.define(f"{name}{direction.schema}")
    given = _one if direction.schema.endswith("-> Tensor") else _whole
    # Code generated by torch.compile calls the operator through the dispatcher; those calls are replayed too.
    direct = Function(
        lambda *arguments: _watched(direction, arguments[0])(*arguments), f"{NAMESPACE}::{name}"
    )
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, given(lambda *arguments: direct.call(*arguments)), key)
    torch.library.register_fake(f"{NAMESPACE}::{name}", given(direction.fake), lib=_LIBRARY)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _one(implementation: Callable[..., Tensors]) -> Callable[..., torch.Tensor]:
    return lambda *arguments: implementation(*arguments)[0]


def _whole(implementation: Callable[..., Gradients]) -> Callable[..., Tensors]:
    """Return the implementation with None replaced by an empty tensor: a schema's results cannot be None."""
    return lambda *arguments: tuple(
        arguments[0].new_empty(0) if result is None else result for result in implementation(*arguments)
    )


def _several(results: torch.Tensor | Tensors) -> Tensors:
    """Return the results as a tuple: a schema with a single result returns a tensor."""
    return (results,) if isinstance(results, torch.Tensor) else results


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            f"{name}: it is differentiable once; for a gradient of a gradient set AGENT_KERNELS_DISABLE=1"
        )

    return refuse
