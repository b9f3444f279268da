"""Values of fake tensors that depend only on the source, so that a constructor can read them.

`ConstantValues` is a dispatch mode, entered inside `FakeTensorMode`. It follows deterministic operators on no
tensors, or only on tensors with known values, and keeps each real result up to MAX_ELEMENTS. From the kept
results it answers calls that fake tensors cannot (`.item()`, `nonzero`). Random, uninitialised or externally
written tensors have no value. Imports torch: for the tracing child only.
"""

from typing import Any, cast

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

MAX_ELEMENTS = 2**16
"""Maximum elements of a kept value: enough for schedules, index tables and masks, but not parameters."""
_NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
_UNINITIALISED = ("empty", "new_empty", "resize")


class ConstantValues(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that keeps values while it is active; `fake` is the enclosing FakeTensorMode."""

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fake = fake
        self._values: dict[int, dict[int, tuple[FakeTensor, torch.Tensor]]] = {}
        """Storage -> tensor id -> (tensor, kept alive; value). A write to a storage changes all its views."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        known = _is_deterministic(func) and all(self._is_known(t) for t in _tensors((args, kwargs)))
        try:
            result = func(*args, **kwargs)
        except _NEEDS_VALUES:
            if not known:
                raise
            real = self._computed(func, args, kwargs)
            result = tree_map_only(torch.Tensor, self._fake.from_tensor, real)
        else:
            known = known and all(made.numel() <= MAX_ELEMENTS for made in _tensors(result))
            real = self._computed(func, args, kwargs) if known and _tensors(result) else None
        if func._schema.is_mutable and not known:
            self._forget(func, args, kwargs)
        elif known:
            self._keep(result, real)
        return result

    def _is_known(self, tensor: torch.Tensor) -> bool:
        if not isinstance(tensor, FakeTensor):
            return tensor.numel() <= MAX_ELEMENTS
        return id(tensor) in self._values.get(_storage(tensor), {})

    def _computed(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def value(tensor: torch.Tensor) -> torch.Tensor:
            known = self._values.get(_storage(tensor), {}).get(id(tensor))
            return tensor if known is None else known[1]

        with _disable_current_modes():
            given, named = tree_map_only(torch.Tensor, value, (args, kwargs))
            return func(*given, **named)

    def _keep(self, result: Any, real: Any) -> None:
        for made, value in zip(_tensors(result), _tensors(real), strict=True):
            if isinstance(made, FakeTensor):
                self._values.setdefault(_storage(made), {})[id(made)] = made, value

    def _forget(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Drop the values of written tensors, including all their views."""
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[place] if place < len(args) else kwargs.get(argument.name)
                for tensor in _tensors(given):
                    self._values.pop(_storage(tensor), None)


def _is_deterministic(func: OpOverload) -> bool:
    name = func._schema.name.split("::")[-1]
    return torch.Tag.nondeterministic_seeded not in func.tags and not name.startswith(_UNINITIALISED)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return cast(int, tensor.untyped_storage()._cdata)
