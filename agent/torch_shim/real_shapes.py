"""One call of a model at sizes that do not fit this machine; its tensors have addresses but no valid values.

Large tensors are reserved memory. A torch operator that takes or makes a large tensor is not computed; its
result has the right shape and arbitrary values. Code that needs a value raises NotRunnable. The answer of
`run` also lists the operators that forward runs on data not made from parameters alone.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from . import custom_operators
from .c_abi import SAMPLED_BYTES
from .runtime import Runtime

_aten = torch.ops.aten
_READ_VALUES = {
    _aten._local_scalar_dense, _aten.equal, _aten.allclose, _aten.is_nonzero, _aten.nonzero,
    _aten.masked_select,
}  # fmt: skip
_NO_COMPUTATION = {_aten.set_, _aten.resize_, _aten.detach, _aten.alias}


class NotRunnable(RuntimeError):
    """The host code cannot run without values."""


class ShapesOnly(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that runs operators on small tensors and only infers shapes for large ones."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._runtime = runtime
        self.in_forward = False
        self.refused: str | None = None
        self.operators: set[str] = set()
        """Names of operators that ran in forward on data that may depend on its inputs."""
        self._fixed: dict[int, torch.UntypedStorage] = {}
        """Storages by address that do not depend on forward's inputs: made before forward, or from other such
        storages. They are kept so that their addresses are not reused."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            if func.overloadpacket in _READ_VALUES and self.in_forward:
                self._refuse(f"forward reads values on the host ({func})")
            if func.overloadpacket in _NO_COMPUTATION or _is_view(func):
                return func(*args, **kwargs)
            if custom_operators.is_own(func):
                with custom_operators.shown_to(self) as shown:
                    result = self._own(func, args, kwargs)
                if shown.entered:
                    return result
            else:
                result = self._result(func, args, kwargs)
            self._note(func, _tensors((args, kwargs)), _tensors(result))
            return result

    def _note(self, func: Any, taken: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        fixed = all(_place(tensor) in self._fixed for tensor in taken)
        if not self.in_forward or (fixed and taken):
            for tensor in made:
                if _place(tensor):
                    self._fixed[_place(tensor)] = tensor.untyped_storage()
        elif taken:
            self.operators.add(str(func).removeprefix("aten.").partition(".")[0])

    def _own(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that is not torch's if Python implements it; else infer the result's shape."""
        if custom_operators.is_implemented(func):
            return func(*args, **kwargs)
        return self._result(func, args, kwargs)

    def _result(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            shapes = _on_meta(func, args, kwargs)
        except NotImplementedError:
            if any(_is_large(tensor) for tensor in _tensors((args, kwargs))):
                self._refuse(f"the shape of what {func} gives depends on values")
            return func(*args, **kwargs)
        if not any(_is_large(tensor) for tensor in _tensors((args, kwargs, shapes))):
            return func(*args, **kwargs)
        written = _written(func, args, kwargs)
        if written:
            return written[0] if len(written) == 1 else tuple(written)
        return tree_map_only(torch.Tensor, self._runtime.empty, shapes)

    def _refuse(self, why: str) -> None:
        self.refused = self.refused or why
        raise NotRunnable(why)


@contextlib.contextmanager
def without_blocks(runtime: Runtime) -> Iterator[ShapesOnly]:
    """Record launches without running any block; code that needs a value raises NotRunnable."""
    mode = ShapesOnly(runtime)
    mode.in_forward = True
    runtime.sample(numbers=False, host_only=True)
    with torch.no_grad(), mode:
        yield mode


def run(runtime: Runtime, model: Callable[..., Any], command: dict[str, Any]) -> dict[str, Any]:
    """Make the model from `init_inputs` and call it on `inputs`, given as values or as shape and dtype.

    With `numbers`, unwritten memory holds numbers instead of zeros. With `host_only`, launches are recorded
    but no block runs. Tensors of an earlier call must have been released. Return `notes` on parts that did
    not run, the `kernels` launched and the `operators` run. Raise whatever the candidate raises.
    """
    mode = ShapesOnly(runtime)
    runtime.sample(command["numbers"], host_only=bool(command.get("host_only")))
    try:
        with torch.no_grad(), mode:
            made = model(*command["init_inputs"]).eval()
            mode.in_forward = True
            made(*(_input(runtime, described) for described in command["inputs"]))
        runtime.synchronize()
    except Exception:
        if mode.refused is None:
            raise
    notes = [*([mode.refused] if mode.refused else []), *runtime.sample_notes()]
    return {"notes": notes, "kernels": runtime.kernels(), "operators": sorted(mode.operators)}


def _input(runtime: Runtime, described: dict[str, Any]) -> Any:
    if "value" in described:
        return described["value"]
    with torch._C.DisableTorchFunction():
        shape = torch.empty(described["shape"], dtype=getattr(torch, described["dtype"]), device="meta")
        return runtime.empty(shape)


def _on_meta(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    def shape_of(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")

    args, kwargs = tree_map_only(torch.Tensor, shape_of, (args, kwargs))
    if "device" in {argument.name for argument in func._schema.arguments}:
        kwargs = kwargs | {"device": torch.device("meta")}
    return func(*args, **kwargs)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _place(tensor: torch.Tensor) -> int:
    """Return the address of the tensor's storage, or 0 if the tensor is not strided."""
    return tensor.untyped_storage().data_ptr() if tensor.layout is torch.strided else 0


def _is_large(tensor: torch.Tensor) -> bool:
    return tensor.numel() * tensor.element_size() >= SAMPLED_BYTES


def _is_view(func: Any) -> bool:
    aliases = [returned.alias_info for returned in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments that the operator writes to."""
    given = zip(func._schema.arguments, args, strict=False)
    named = ((argument, kwargs.get(argument.name)) for argument in func._schema.arguments)
    return [
        value
        for argument, value in [*given, *named]
        if value is not None and argument.alias_info is not None and argument.alias_info.is_write
    ]
