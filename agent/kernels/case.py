"""One kernel at one shape: the kernel and torch as functions of the same tensors, and their errors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple, TypeVar

import torch

Function = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]
Made = TypeVar("Made")
SAMPLE = 2
"""Number of leading entries of the input that are compared with float64."""


class Error(NamedTuple):
    """Largest and root-mean-square error against float64."""

    largest: float
    rms: float


@dataclass(frozen=True)
class Case:
    """One kernel at one shape, with the sides that it is timed and compared with."""

    kernel: str
    ours: Function
    native: Function
    """Torch's function."""
    shape: tuple[int, ...]
    parameters: tuple[tuple[int, ...], ...] = ()
    """Shapes of the arguments that both functions take after the input."""
    dtype: torch.dtype = torch.float32
    setting: str = ""
    trains: bool = False
    result_share: float = 1.0
    """Elements of the result or results, per element of the input."""
    inputs: int = 1
    """Number of tensors of the input's shape that both functions take before the parameters."""
    backward_share: float = 2.0
    """Elements that a backward pass moves besides the result's gradient, per element of the input.

    By default the pass reads the input again and writes its gradient."""
    in_a_row: int = 1
    """Number of calls back to back in one timing. Above 1 the launch overhead counts."""
    rivals: Mapping[str, Function] = field(default_factory=dict)
    """Further functions to time and compare, by name."""
    macs: int = 0
    """Multiply-adds of a forward call of a product, otherwise 0."""
    sample: int | None = SAMPLE
    """Number of leading entries of the input that are compared with float64, or None for all."""
    is_positive: bool = False
    """True if no input value is negative, so that truncation errors of the additions accumulate."""

    @property
    def dtype_name(self) -> str:
        """Return the dtype's name as torch spells it."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def least_bytes(self) -> int:
        """Return the minimum of bytes to read and write.

        A training step adds the result's gradient, `backward_share`, and the parameters twice more.
        """
        again = self.backward_share + self.result_share if self.trains else 0
        traffic = self.inputs + self.result_share + again
        of_parameters = sum(map(prod, self.parameters)) * (3 if self.trains else 1)
        return (round(traffic * prod(self.shape)) + of_parameters) * int(self.dtype.itemsize)

    @property
    def flops(self) -> int:
        """Return the floating-point operations of the products; a training step has three times as many."""
        return 2 * self.macs * (3 if self.trains else 1)

    def call(self, function: Function, device: str = "cuda") -> Callable[[], object]:
        """Return a call of the function on tensors that are created once."""
        x, parameters = self._tensors(device)
        if not self.trains:
            return partial(_forward, function, x, parameters)
        for tensor in (x, *parameters):
            tensor.requires_grad_()
        with torch.no_grad():
            grad = tuple(map(torch.randn_like, _values(function(x, *parameters))))
        return partial(_step, function, x, parameters, grad)

    def errors(self, device: str = "cuda") -> dict[str, Error]:
        """Return the errors of the kernel (`ours`), torch (`native`) and the rivals, on a sample."""
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
    """Return `make` with its result cached by the tensor's shape, dtype and device.

    For inputs that a model has before the call, such as tables and targets. Without the cache one side would
    launch their computation and the other would fuse it, and its time belongs to neither.
    """
    made: dict[tuple[Any, ...], Made] = {}

    def kept(x: torch.Tensor) -> Made:
        key = (*x.shape, x.dtype, x.device)
        if key not in made:
            made[key] = make(x)
        return made[key]

    return kept


def both(case: Case) -> list[Case]:
    """Return the case itself, and the same case as a training step."""
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
