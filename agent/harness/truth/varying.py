"""Families of inputs derived from a reference's stated inputs, according to the reference's use of them."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from agent.harness.truth import discrete, input_distributions, mixtures, output_structure
from agent.harness.truth.usage import FloatUse, IntegerUse, Usage
from agent.harness.truth.user_code import ReferenceRaised, of_the_reference

_PROBE = 20_251
"""Seed of the varied values that are tried on a reference once, to learn which ones it accepts."""


class Model(Protocol):
    """Part of `truth.reference.Reference` that is needed here."""

    model: Any
    seed: int

    def inputs(self, seed: int, family: str | None) -> list[Any] | None: ...


class Varying:
    """Families of inputs for one reference, whose use of inputs is learnt by running copies of its module."""

    def __init__(self, reference: Model) -> None:
        self._reference = reference
        self._uses: tuple[dict[int, IntegerUse], dict[int, FloatUse]] | None = None
        self._supported: dict[str, dict[int, str]] | None = None
        self.fixed: list[str] = []
        """Notes for the scope on inputs that cannot be varied, each with the reason."""
        self._skeleton: str | None = None

    def forget(self) -> None:
        """Forget the use of inputs, because thresholds may depend on the parameters."""
        self._uses = None

    def derived(self, family: str, inputs: list[Any], seed: int) -> list[Any] | None:
        """Return the inputs of the family, or None if the family has nothing to change."""
        if family in discrete.VARIANTS:
            return self._discrete(family, inputs, seed)
        if family not in mixtures.REACHES and family not in mixtures.EDGED:
            return input_distributions.derived(family, inputs, seed)
        values, structure = tree_flatten(inputs)
        changed = False
        for number, value in enumerate(values):
            if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
                continue
            if discrete.is_discrete(value):
                continue
            use = self._used(inputs)[1].get(number, mixtures.UNKNOWN)
            new = mixtures.derived(value, use, family, seed + number)
            if new is not None:
                values[number], changed = new, True
        return list(tree_unflatten(values, structure)) if changed else None

    def keeps_structure(self, family: str | None, native: Any) -> bool:
        """Return False if varied scalars changed the structure of the outputs (`native`)."""
        if family not in discrete.VARIANTS:
            return True
        return self._skeleton is None or output_structure.skeleton(native) == self._skeleton

    def _discrete(self, family: str, inputs: list[Any], seed: int) -> list[Any] | None:
        if not discrete.places(inputs):
            return None
        uses = self._used(inputs)[0]
        if self._supported is None:
            with self._copied() as model:
                self._supported = {}
                if model is not None:
                    self._supported, self.fixed = self._tried(model, inputs, uses)
        return discrete.derived(inputs, self._supported.get(family, {}), uses, seed)

    def _tried(
        self, model: Any, inputs: list[Any], uses: dict[int, IntegerUse]
    ) -> tuple[dict[str, dict[int, str]], list[str]]:
        stated = _run(model, inputs)
        self._skeleton = output_structure.skeleton(stated)
        is_finite = _is_finite(stated)

        def refusal(changed: list[Any]) -> str | None:
            try:
                result = _run(model, changed)
            except ReferenceRaised as error:
                return f"the reference raises {type(error.__cause__).__name__}"
            if output_structure.skeleton(result) != self._skeleton:
                return "its output has another shape"
            return None if _is_finite(result) or not is_finite else "the reference is not finite"

        return discrete.supported(inputs, uses, refusal, _PROBE)

    def _used(self, inputs: list[Any]) -> tuple[dict[int, IntegerUse], dict[int, FloatUse]]:
        """Return the uses of integer and of floating-point inputs, by index among the flattened inputs."""
        if self._uses is None:
            self._uses = {}, {}
            with self._copied() as model:
                if model is not None:
                    with contextlib.suppress(ReferenceRaised):
                        self._uses = _traced(model, inputs)
        return self._uses

    @contextlib.contextmanager
    def _copied(self) -> Iterator[Any]:
        """Yield a copy of the module, to which forward may write, or None if it cannot be copied."""
        try:
            model = copy.deepcopy(self._reference.model)
        except Exception:  # noqa: BLE001 - the user's own class decides what can be copied
            model = None
        yield model


def _run(model: Any, inputs: list[Any]) -> Any:
    given = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, inputs)
    before = torch.get_rng_state()
    try:
        with torch.no_grad(), of_the_reference():
            return model(*given)
    finally:
        torch.set_rng_state(before)


def _traced(model: Any, inputs: list[Any]) -> tuple[dict[int, IntegerUse], dict[int, FloatUse]]:
    values, structure = tree_flatten(inputs)
    tensors = {
        number: value.clone() for number, value in enumerate(values) if isinstance(value, torch.Tensor)
    }
    given = tree_unflatten([tensors.get(number, value) for number, value in enumerate(values)], structure)
    usage = Usage(tensors.values())
    before = torch.get_rng_state()
    try:
        with torch.no_grad(), of_the_reference(), usage:
            model(*given)
    finally:
        torch.set_rng_state(before)
    numbers = list(tensors)
    return (
        {numbers[place]: use for place, use in usage.integers.items()},
        {numbers[place]: use for place, use in usage.floats.items()},
    )


def _is_finite(value: Any) -> bool:
    leaves = [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]
    return all(bool(torch.isfinite(t).all()) for t in leaves if t.is_floating_point())
