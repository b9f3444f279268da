"""One kernel at one shape: both sides as functions of the same tensors, and how far each is from float64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple, TypeVar

import torch

Function = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
Made = TypeVar("Made")
SAMPLE = 2
"""Leading entries of the input that are compared with float64."""


class Error(NamedTuple):
    """Against float64."""

    largest: float
    rms: float


@dataclass(frozen=True)
class Case:
    """One kernel at one shape."""

    kernel: str
    ours: Function
    native: Function
    """Torch's."""
    shape: tuple[int, ...]
    parameters: tuple[tuple[int, ...], ...] = ()
    """Shapes of what both functions take after the input."""
    dtype: torch.dtype = torch.float32
    setting: str = ""
    trains: bool = False
    result_share: float = 1.0
    """Elements of the result or results, for each of the input."""
    inputs: int = 1
    """Tensors of the input's shape that both functions take before the parameters."""
    backward_share: float = 2.0
    """Elements that a backward pass reads or writes beside the result's gradient, for each of the input: it
    again, and its gradient."""
    in_a_row: int = 1
    """Calls that follow each other without a pause in one timing: above 1 what launching costs is in it."""
    rivals: Mapping[str, Function] = field(default_factory=dict)
    """Others that are timed and compared beside torch's, by their names."""
    macs: int = 0
    """Multiplications and additions of a forward call, where it is a product."""
    sample: int | None = SAMPLE
    """Leading entries of the input that are compared with float64; None: all."""
    is_positive: bool = False
    """No value is negative, so that what every addition cuts off adds up."""

    @property
    def dtype_name(self) -> str:
        """As torch spells it."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def least_bytes(self) -> int:
        """What has to be read and written once; a training step reads the result's gradient, and more."""
        again = self.backward_share + self.result_share if self.trains else 0
        traffic = self.inputs + self.result_share + again
        of_parameters = sum(map(prod, self.parameters)) * (3 if self.trains else 1)
        return (round(traffic * prod(self.shape)) + of_parameters) * int(self.dtype.itemsize)

    @property
    def flops(self) -> int:
        """Of the products; a training step has three for each."""
        return 2 * self.macs * (3 if self.trains else 1)

    def call(self, function: Function, device: str = "cuda") -> Callable[[], object]:
        """A call on tensors made for it, always the same ones."""
        x, parameters = self._tensors(device)
        if not self.trains:
            return partial(_forward, function, x, parameters)
        for tensor in (x, *parameters):
            tensor.requires_grad_()
        with torch.no_grad():
            grad = tuple(map(torch.randn_like, _values(function(x, *parameters))))
        return partial(_step, function, x, parameters, grad)

    def errors(self, device: str = "cuda") -> dict[str, Error]:
        """Of the kernel (`ours`), of torch (`native`) and of the rivals, on a sample of the input."""
        x, parameters = self._tensors(device)
        x = x[: self.sample].clone()
        alike = self.inputs - 1
        parameters = [*(one[: self.sample].clone() for one in parameters[:alike]), *parameters[alike:]]
        sides = {"ours": self.ours, "native": self.native, **self.rivals}
        with torch.no_grad():
            truth = self.native(x.double(), *(parameter.double() for parameter in parameters))
            return {name: _distance(side(x, *parameters), truth) for name, side in sides.items()}

    def _tensors(self, device: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        generator = torch.Generator(device).manual_seed(0)

        def draw(shape: Sequence[int]) -> torch.Tensor:
            values = torch.randn(tuple(shape), generator=generator, device=device, dtype=self.dtype)
            return values.abs_() if self.is_positive else values

        shapes = (*[self.shape] * (self.inputs - 1), *self.parameters)
        return draw(self.shape), [draw(shape) for shape in shapes]


def made_once(make: Callable[[torch.Tensor], Made]) -> Callable[[torch.Tensor], Made]:
    """`make` of a tensor's shape, dtype and device, at the first call for them.

    For what a model has before the call: what computes it is launched by one side and fused by the other, and
    its time is neither's.
    """
    made: dict[tuple[Any, ...], Made] = {}

    def kept(x: torch.Tensor) -> Made:
        key = (*x.shape, x.dtype, x.device)
        if key not in made:
            made[key] = make(x)
        return made[key]

    return kept


def both(case: Case) -> list[Case]:
    """The case as it is, and as a training step."""
    setting = f"{case.setting} forward and backward".strip()
    return [case, replace(case, trains=True, setting=setting)]


def _forward(function: Function, x: torch.Tensor, parameters: list[torch.Tensor]) -> object:
    with torch.no_grad():
        return function(x, *parameters)


def _step(
    function: Function, x: torch.Tensor, parameters: list[torch.Tensor], grads: tuple[torch.Tensor, ...]
) -> object:
    return torch.autograd.grad(_values(function(x, *parameters)), (x, *parameters), grads)


def _values(result: torch.Tensor | tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else result


def _distance(
    result: torch.Tensor | tuple[torch.Tensor, ...], truth: torch.Tensor | tuple[torch.Tensor, ...]
) -> Error:
    pairs = zip(_values(result), _values(truth), strict=True)
    difference = torch.cat([(ours.double() - exact).flatten() for ours, exact in pairs])
    return Error(float(difference.abs().max()), float(difference.square().mean().sqrt()))
