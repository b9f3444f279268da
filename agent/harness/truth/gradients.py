"""Gradients of the reference, which a trainable candidate has to reproduce.

This code runs in the oracle's process. It draws a secret upstream gradient for each floating-point output.
The candidate returns the gradients of the floating-point inputs and of the parameters. Their tolerance
follows, like that of outputs, from the errors of two float32 runs against float64: torch's own, and one that
sums in another order. Modules are in eval mode, as for outputs.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch._decomp import get_decompositions

from agent.harness.truth import tolerance
from agent.harness.truth.draws import Draw, tree_map
from agent.harness.truth.reference import Reference
from agent.harness.truth.summation import OneByOne, Strips
from agent.harness.truth.summation_order import OtherOrder
from agent.harness.truth.user_code import of_the_reference
from agent.records import Finding

_aten = torch.ops.aten


class NotDifferentiable(Exception):
    """Exception raised if the reference has no gradients to compare with; the message says why."""


class Gradients(NamedTuple):
    """Expected gradients of one draw."""

    upstream: list[torch.Tensor | None]
    """Upstream gradient of each output tensor, or None for an output without gradient."""
    names: list[str]
    """Names of the tensors with a gradient, such as `input 0` and `weight`, inputs first."""
    expected: list[tolerance.Expected]


class _OtherOrder(OtherOrder):  # type: ignore[no-untyped-call]
    """Dispatch mode that also decomposes backward operators, to take their sums in another order."""

    def __init__(self, order: Strips | None = None) -> None:
        super().__init__(order)
        self._parts: dict[Any, Callable[..., Any]] = get_decompositions(
            [
                _aten.native_layer_norm_backward, _aten.native_group_norm_backward,
                _aten.native_batch_norm_backward, _aten._softmax_backward_data,
                _aten._log_softmax_backward_data, _aten.nll_loss_backward, _aten.embedding_dense_backward,
            ]
        )  # fmt: skip

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        parts = self._parts.get(func)
        if parts is None:
            return super().__torch_dispatch__(func, types, args, kwargs)
        with self:
            return parts(*args, **kwargs or {})


def expected(reference: Reference, draw: Draw, seed: int) -> Gradients:
    """Return the reference's gradients for one draw.

    Raises NotDifferentiable, and ReferenceRaised if the reference raises.
    """
    if reference.changes:
        raise NotDifferentiable("the reference writes to its inputs or buffers")
    generator = torch.Generator().manual_seed(seed)
    native = _Run(reference.model, draw.inputs)
    upstream = [
        torch.randn(out.shape, generator=generator).to(out) if out.requires_grad else None
        for out in native.outputs
    ]
    if not any(tensor is not None for tensor in upstream):
        raise NotDifferentiable("no output of the reference depends on an input or a parameter smoothly")
    one, order = native.gradients(upstream), OneByOne()
    with _OtherOrder() as mode:
        other = sequence = _Run(reference.model, draw.inputs).gradients(upstream)
    in64 = _Run(reference.in_float64(), tree_map(_to64, draw.inputs))
    truth = in64.gradients([_to64(t) for t in upstream])
    if mode.order.few:
        with _OtherOrder(order):
            sequence = _Run(reference.model, draw.inputs).gradients(upstream)
    known = [name for name, gradient in one.items() if gradient is not None]
    limits = [
        tolerance.Expected(
            one[name], other[name], truth[name], tolerance.Sequence(sequence[name], order.lost)
        )
        for name in known
    ]
    return Gradients(upstream, known, limits)


def compare(gradients: Gradients, given: list[Any]) -> dict[str, Any]:
    """Return the largest errors of all gradients, and a finding if one is missing or wrong.

    `given` holds tensors or None, in the order of the names.
    """
    worst = {"max_abs_err": 0.0, "max_rel_err": 0.0, "ratio": 0.0}
    for name, want, gradient in zip(gradients.names, gradients.expected, given, strict=True):
        what = name if name.startswith("input ") else f"parameter `{name}`"
        missing = gradient is None
        gradient = torch.zeros_like(want.native) if missing else gradient
        if not isinstance(gradient, torch.Tensor) or gradient.shape != want.native.shape:
            return worst | {"finding": _wrong(what, "it has another shape.")}
        result = want.compare(gradient)
        if "finding" in result:
            said = result["finding"]
            return worst | {"finding": _missing(what) if missing else _wrong(what, said["message"])}
        worst = {key: max(worst[key], result[key]) for key in worst}
    return worst


def _missing(what: str) -> dict[str, Any]:
    message = f"backward gives no gradient for {what}; the reference's is not zero."
    return Finding(kind="missing-gradient", message=message).model_dump(mode="json")


def _wrong(what: str, said: str) -> dict[str, Any]:
    message = f"The gradient of {what} is not the reference's: {said}"
    return Finding(kind="wrong-gradient", message=message).model_dump(mode="json")


class _Run:
    """One forward with autograd on, on copies of the inputs that are leaf tensors."""

    def __init__(self, model: Any, inputs: list[Any]) -> None:
        given = tree_map(_leaf, inputs)
        self.wanted = {
            f"input {number}": tensor
            for number, tensor in enumerate(tolerance.leaves(given))
            if tensor.requires_grad
        } | {name: p for name, p in model.named_parameters() if p.requires_grad}
        with torch.enable_grad(), of_the_reference():
            self.outputs = tolerance.leaves(model(*given))

    def gradients(self, upstream: list[torch.Tensor | None]) -> dict[str, torch.Tensor | None]:
        pairs = list(_differentiable(self.outputs, upstream))
        with of_the_reference():
            found = torch.autograd.grad(
                [out for out, _ in pairs],
                list(self.wanted.values()),
                [gradient for _, gradient in pairs],
                allow_unused=True,
            )
        return dict(zip(self.wanted, found, strict=True))


def _differentiable(
    outputs: list[torch.Tensor], upstream: list[torch.Tensor | None]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for out, gradient in zip(outputs, upstream, strict=True):
        if gradient is not None:
            yield out, gradient


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    alone = tensor.detach().clone()
    return alone.requires_grad_() if alone.is_floating_point() else alone


def _to64(tensor: torch.Tensor | None) -> Any:
    return tensor.double() if tensor is not None and tensor.is_floating_point() else tensor
