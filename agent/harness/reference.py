"""The user's reference, run for the truth: secret parameters and inputs, two float32 runs, one in float64.

Eval mode, no gradients. Everything follows from the seeds, so that what a reference changes in place can be
made again.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from agent.harness import budget, evidence, families
from agent.harness.orders import OtherOrder

NOISE = 0.3
"""Perturbation of every parameter relative to its own scale: an ignored affine shows, training-like
values stay; the size is the protocol page's `order 0.3`."""
VARIANCE_DECADES = 3
"""Running variances spread downwards over so many powers of ten, so that an ignored eps shows."""


VARIED = 1 / 64
"""Share that inputs lose at most where `get_inputs` gives the same whatever the seed: no number grows or
changes its sign, zeros and infinities stay."""


class Draw(NamedTuple):
    inputs: list[Any]
    expected: budget.Expected
    overlaps: list[list[str]]
    """For each output the kinds of tensors that the reference's own output shares memory with."""


class Reference:
    def __init__(self, source: Path, device: str) -> None:
        self._device = device
        self._space: dict[str, Any] = {"__name__": "reference", "__file__": str(source)}
        exec(compile(source.read_text(), str(source), "exec"), self._space)
        self.model: Any = None
        self._model64: Any = None
        self._dtype: torch.dtype | None = None
        self.seed = 0
        self.constructed: dict[str, torch.Tensor] = {}
        """The state of the present instance before it was perturbed."""
        self._fixed: bool | None = None
        self.changes: set[str] = set()
        """What the reference itself writes to: names of its state, and `input`."""

    def perturb(self, seed: int) -> list[Any]:
        """A new instance with perturbed parameters; returns the constructor's arguments."""
        self.seed = seed
        torch.manual_seed(seed)
        arguments = list(self._space["get_init_inputs"]())
        self.model = self._space["Model"](*arguments).eval()
        generator = torch.Generator().manual_seed(seed + 1)
        self.constructed = {n: t.to(self._device, copy=True) for n, t in self.model.state_dict().items()}
        for name, tensor in self.model.state_dict().items():
            _perturb(name, tensor, generator)
        self.model.to(self._device)
        self._model64 = self._dtype = None
        return arguments

    def state(self) -> dict[str, torch.Tensor]:
        return dict(self.model.state_dict())

    def inputs(self, seed: int, family: str | None) -> list[Any] | None:
        """Inputs as stated, or derived from those; None where the family has nothing to change."""
        inputs = self._stated(seed)
        return families.derived(family, inputs, seed + 1) if family else inputs

    def draw(self, seed: int, family: str | None = None, inputs: list[Any] | None = None) -> Draw | None:
        """The inputs and what they must give; None as for `inputs`. Raises what the reference raises.

        `inputs` are those of this seed and family where they are at hand.
        """
        inputs = self.inputs(seed, family) if inputs is None else inputs
        if inputs is None:
            return None
        with torch.no_grad():
            native, touched = self.native(inputs)
            overlaps = evidence.overlaps(native, {"input": inputs, "parameter": self.state()})
            native = tree_map(lambda t: t.to(self._device), native)
            if touched:
                self.perturb(self.seed)
                self.changes |= touched
                inputs = self._again(seed, family)
                native = tree_map(torch.clone, native)
            with OtherOrder():  # type: ignore[no-untyped-call]
                other = tree_map(lambda t: t.to(self._device), self.model(*inputs))
            if touched:
                self.perturb(self.seed)
                inputs = self._again(seed, family)
            truth = self.truth(inputs)
        return Draw(inputs, budget.Expected(native, other, truth), overlaps)

    def given(self, inputs: list[Any]) -> Draw:
        """What these inputs must give; for a reference that writes to nothing. Raises what it raises."""
        with torch.no_grad():
            native = self.model(*inputs)
            with OtherOrder():  # type: ignore[no-untyped-call]
                other = self.model(*inputs)
            return Draw(inputs, budget.Expected(native, other, self.truth(inputs)), [])

    def convert(self, dtype: torch.dtype | None) -> None:
        """The present parameters in another floating-point dtype; None is the stated one again."""
        if dtype is not self._dtype:
            self.perturb(self.seed)
            self.model.to(dtype)
            self._dtype = dtype

    def native(self, inputs: list[Any]) -> tuple[Any, set[str]]:
        """torch's own float32 result, and what the reference wrote to on the way."""
        tensors = {"input": evidence.leaves(inputs)} | {name: [t] for name, t in self.state().items()}
        before = {name: [t._version for t in group] for name, group in tensors.items()}
        result = self.model(*inputs)
        after = {name: [t._version for t in group] for name, group in tensors.items()}
        return result, {name for name in tensors if before[name] != after[name]}

    def truth(self, inputs: list[Any]) -> Any:
        """The result in float64."""
        return self.in_float64()(*tree_map(_to64, inputs))

    def in_float64(self) -> Any:
        """The present instance in float64."""
        if self._model64 is None or self.changes:
            arguments = self._space["get_init_inputs"]()
            self._model64 = self._space["Model"](*arguments).eval().to(self._device).double()
            self._model64.load_state_dict({name: _to64(t) for name, t in self.state().items()})
        return self._model64

    def _again(self, seed: int, family: str | None) -> list[Any]:
        inputs = self.inputs(seed, family)
        assert inputs is not None
        return inputs

    def _stated(self, seed: int) -> list[Any]:
        """As `get_inputs` draws them; varied where it never draws others, which could be foreseen."""
        inputs = self._drawn(seed)
        if self._fixed is None:
            again = zip(evidence.leaves(inputs), evidence.leaves(self._drawn(seed + 1)), strict=True)
            self._fixed = all(one.shape == other.shape and torch.equal(one, other) for one, other in again)
        return list(tree_map(partial(_varied, seed=seed), inputs)) if self._fixed else inputs

    def _drawn(self, seed: int) -> list[Any]:
        torch.manual_seed(seed)
        if self._device == "cuda":
            try:
                with torch.device("cuda"):
                    return list(tree_map(lambda t: t.cuda(), self._space["get_inputs"]()))
            except RuntimeError:
                # An input made from numpy or from a CPU generator cannot be drawn on the GPU.
                torch.manual_seed(seed)
        return list(tree_map(lambda t: t.to(self._device), self._space["get_inputs"]()))


def _perturb(name: str, tensor: torch.Tensor, generator: torch.Generator) -> None:
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return
    scale = float(tensor.double().pow(2).mean().sqrt()) or 1.0
    with torch.no_grad():
        noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float32)
        tensor.add_((NOISE * scale * noise).to(tensor.dtype))
        if name.endswith("running_var"):
            decades = VARIANCE_DECADES * torch.rand(tensor.shape, generator=generator)
            tensor.abs_().add_(0.1).mul_((10.0**-decades).to(tensor.dtype))


def _varied(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    generator = torch.Generator(tensor.device).manual_seed(seed)
    lost = VARIED * torch.rand(tensor.shape, generator=generator, device=tensor.device)
    return tensor * (1 - lost).to(tensor.dtype)


def tree_map(change: Any, value: Any) -> Any:
    """`value` with `change` applied to every tensor in it."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(tree_map(change, item) for item in value)
    if isinstance(value, dict):
        return {key: tree_map(change, item) for key, item in value.items()}
    return value


def _to64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
