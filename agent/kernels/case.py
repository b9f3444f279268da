"""One kernel at one shape: both sides as functions of the same tensors, and how far each is from float64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import NamedTuple

import torch

Function = Callable[..., torch.Tensor]
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
    """Elements of the result, for each of the input."""
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
        """What has to be read and written once; a training step reads the input and its gradient again."""
        traffic = 1 + self.result_share + (2 + self.result_share if self.trains else 0)
        of_parameters = sum(map(prod, self.parameters)) * (3 if self.trains else 1)
        return (round(traffic * prod(self.shape)) + of_parameters) * int(self.dtype.itemsize)

    @property
    def flops(self) -> int:
        """Of the products; a training step has three for each."""
        return 2 * self.macs * (3 if self.trains else 1)

    def call(self, function: Function) -> Callable[[], object]:
        """A call on tensors made for it, always the same ones."""
        x, parameters = self._tensors("cuda")
        if not self.trains:
            return partial(_forward, function, x, parameters)
        for tensor in (x, *parameters):
            tensor.requires_grad_()
        with torch.no_grad():
            grad = torch.randn_like(function(x, *parameters))
        return partial(_step, function, x, parameters, grad)

    def errors(self) -> dict[str, Error]:
        """Of the kernel (`ours`), of torch (`native`) and of the rivals, on a sample of the input."""
        x, parameters = self._tensors("cuda")
        x = x[: self.sample].clone()
        sides = {"ours": self.ours, "native": self.native, **self.rivals}
        with torch.no_grad():
            truth = self.native(x.double(), *(parameter.double() for parameter in parameters))
            return {name: _distance(side(x, *parameters), truth) for name, side in sides.items()}

    def _tensors(self, device: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        generator = torch.Generator(device).manual_seed(0)

        def draw(shape: Sequence[int]) -> torch.Tensor:
            values = torch.randn(tuple(shape), generator=generator, device=device, dtype=self.dtype)
            return values.abs_() if self.is_positive else values

        return draw(self.shape), [draw(shape) for shape in self.parameters]


def both(case: Case) -> list[Case]:
    """The case as it is, and as a training step."""
    setting = f"{case.setting} forward and backward".strip()
    return [case, replace(case, trains=True, setting=setting)]


def _forward(function: Function, x: torch.Tensor, parameters: list[torch.Tensor]) -> object:
    with torch.no_grad():
        return function(x, *parameters)


def _step(function: Function, x: torch.Tensor, parameters: list[torch.Tensor], grad: torch.Tensor) -> object:
    return torch.autograd.grad(function(x, *parameters), (x, *parameters), grad)


def _distance(result: torch.Tensor, truth: torch.Tensor) -> Error:
    difference = result.double() - truth
    return Error(float(difference.abs().max()), float(difference.square().mean().sqrt()))
