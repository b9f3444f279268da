"""Recorder of what a kernel's call allocates and launches, so that `csrc/replaying.cpp` can repeat it.

A recipe lists the tensors to allocate, the launches with the fields of their structs, and the fields that are
addresses of tensors. Tensors are known by number; the numbers begin with the tensors of the call. A call that
does any other work, or passes an address outside its tensors, has no recipe. Calls of its kind remain in
Python.
"""

import re
import struct
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable
from torch.utils._python_dispatch import TorchDispatchMode

from agent.kernels.replaying import watching
from agent.kernels.replaying.watching import StreamHandle

if TYPE_CHECKING:
    from agent.kernels.operators import Operator

Recipe = tuple[Any, ...]
"""Recipe: (allocations, launches, results, whether there is a single result, gradient or None).

`Recipe` of csrc/recording.h reads this layout."""
Known = Recipe | bool | None
"""Recipe of a kind, None if the kind has no recipe, or False if it is not known whether it has one."""
Tensors = Sequence[torch.Tensor | None]
NONE = -1
LOWEST_ADDRESS = 2**32
"""Lower bound of tensor addresses, on host and device; all sizes are below it."""
_ATEN = torch.ops.aten
ALLOCATIONS = {
    _ATEN.empty.memory_format, _ATEN.empty_like.default, _ATEN.empty_strided.default,
    _ATEN.new_empty.default, _ATEN.new_empty_strided.default,
}  # fmt: skip


class NotReplayable(Exception):
    """Error for a call that a recipe cannot express."""


def record(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> tuple[Any, Known]:
    """Return the function's result, and the recipe of the call's kind as in `Known`."""
    tensors = [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
    if _is_captured(tensors):
        return function(*arguments, **named), False
    with Recorder(tensors) as recorder:
        result = function(*arguments, **named)
    return result, recorder.forward(result)


class Recorder(AbstractContextManager["Recorder"]):
    """Context that observes this thread while a call works on `tensors`."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = list(tensors)
        self._given = len(self._tensors)
        self._launches: list[tuple[int, str, tuple[float, ...]]] = []
        self._operators = 0
        self._is_replayable = True
        self._kept: tuple[Operator, Tensors, Tensors, Tensors, Sequence[Any]] | None = None

    def __enter__(self) -> "Recorder":
        watching.put(self)
        return self

    def __exit__(self, *_: object) -> None:
        watching.put(None)

    def watched(self, implementation: Callable[..., Any]) -> Callable[..., Any]:
        """Return the operator's implementation, with its allocations and launches recorded."""

        def call(*arguments: Any, **named: Any) -> Any:
            self._operators += 1
            with _Seeing(self):
                return implementation(*arguments, **named)

        return call

    def kept(
        self, operator: "Operator", inputs: Tensors, saved: Tensors, values: Tensors, settings: Sequence[Any]
    ) -> None:
        """Take the tensors and settings that a differentiable call keeps for its gradient."""
        self._kept = operator, inputs, saved, values, settings

    def launched(self, function: int, fields: str, values: tuple[float, ...]) -> None:
        """Record a launch: address of the C function, and the fields of its struct."""
        self._launches.append((function, fields, values))

    def dispatched(self, function: Any, result: Any, arguments: Sequence[Any]) -> None:
        """Record an operator of torch: an allocation, a view, or work that cannot be replayed."""
        if function in ALLOCATIONS:
            if result.numel():  # an empty tensor stands for an unwanted result
                self._tensors.append(result)
        elif not _is_view(function, result, arguments):
            self._is_replayable = False

    def left_to_python(self) -> None:
        """Mark the call as not replayable (`watching.leave_to_python`)."""
        self._is_replayable = False

    def forward(self, result: Any) -> Recipe | None:
        """Return the recipe of a function's call that returned `result`, or None."""
        try:
            results = (result,) if isinstance(result, torch.Tensor) else result
            if not isinstance(results, tuple):
                return None
            numbers = self._made(results)
            gradient = self._gradient() if self._kept is not None else None
            return self._recipe(numbers, isinstance(result, torch.Tensor), gradient)
        except NotReplayable:
            return None

    def backward(self, grads: Sequence[Any]) -> Recipe | None:
        """Return the recipe of a formula's call that returned the gradients `grads`, or None."""
        try:
            return self._recipe(self._made(grads), False, None)
        except NotReplayable:
            return None

    def _recipe(self, results: Sequence[int], is_single: bool, gradient: Recipe | None) -> Recipe:
        if self._operators != 1 or not self._launches or not self._is_replayable:
            raise NotReplayable
        devices = {tensor.device for tensor in self._tensors if tensor is not None}
        if len(devices) != 1:
            raise NotReplayable
        allocations = tuple(
            (tuple(tensor.shape), tensor.stride(), tensor.dtype)
            for tensor in self._tensors[self._given :]
            if tensor is not None
        )
        return allocations, tuple(map(self._launch, self._launches)), tuple(results), is_single, gradient

    def _launch(self, launch: tuple[int, str, tuple[float, ...]]) -> Recipe:
        function, fields, values = launch
        addresses, streams = [], []
        for place, (kind, value) in enumerate(zip(_spelled(fields), values, strict=True)):
            if isinstance(value, StreamHandle):
                streams.append(place)
            elif kind == "q" and value >= LOWEST_ADDRESS:
                addresses.append((place, *self._found(int(value))))
        if not streams:
            raise NotReplayable
        packed = struct.pack(f"@{fields}", *values)
        return function, struct.unpack(f"@{len(values)}q", packed), tuple(addresses), tuple(streams)

    def _found(self, address: int) -> tuple[int, int]:
        """Return the number of the tensor that contains the address, and the offset from its start.

        Tensors that share memory do so in every call of the kind, so any tensor that contains the address is
        right.
        """
        inside = [
            (number, address - tensor.data_ptr(), tensor)
            for number, tensor in enumerate(self._tensors)
            if tensor is not None and 0 <= address - tensor.data_ptr() < _extent(tensor)
        ]
        if not inside or len({tensor.untyped_storage()._cdata for _, _, tensor in inside}) > 1:
            raise NotReplayable
        number, offset, _ = inside[0]
        return number, offset

    def _gradient(self) -> Recipe:
        assert self._kept is not None
        operator, inputs, saved, values, settings = self._kept
        name = f"{operator.name}_backward"
        wanting = [self._number(value) for value in inputs]
        if any(number >= self._given for number in wanting):
            raise NotReplayable
        formula = Formula(operator, settings)
        return name, formula, tuple(map(self._number, saved)), tuple(wanting), self._made(values)

    def _made(self, results: Tensors) -> tuple[int, ...]:
        """Return the numbers of the results, which have to be tensors that the call allocated."""
        numbers = tuple(map(self._number, results))
        if any(0 <= number < self._given for number in numbers):
            raise NotReplayable
        return numbers

    def _number(self, tensor: torch.Tensor | None) -> int:
        if tensor is None:
            return NONE
        for number, known in enumerate(self._tensors):
            # Under a dispatch mode, the caller of an allocation gets another Python object for the same
            # tensor.
            if known is tensor or (number >= self._given and known is not None and _is_same(known, tensor)):
                return number
        raise NotReplayable


class Formula:
    """Callable that computes the gradient of a differentiable call in Python, and records it."""

    def __init__(self, operator: "Operator", settings: Sequence[Any]) -> None:
        self._operator, self._settings = operator, settings

    def __call__(
        self, grads: Sequence[Any], saved: Sequence[Any], needed: Sequence[bool], is_recorded: bool
    ) -> tuple[Sequence[Any], Known]:
        """Return one gradient for each argument, and the recipe of the gradient's kind as in `Known`.

        False instead of a recipe means that the call was not recorded.
        """
        needs = (*needed, *[False] * (len(self._settings) - len(needed)))
        context = SimpleNamespace(saved_tensors=saved, settings=self._settings, needs_input_grad=needs)
        if torch.is_grad_enabled():
            return once_differentiable(self._operator.differentiated)(context, *grads), False
        if not is_recorded or _is_captured(saved):
            return self._operator.differentiated(context, *grads), False
        with Recorder([*grads, *saved]) as recorder:
            made = self._operator.differentiated(context, *grads)
        return made, recorder.backward(made[: len(needed)])


class _Seeing(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """Dispatch mode that reports every operator of torch to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self._recorder.dispatched(function, result, args)
        return result


def _is_captured(tensors: Tensors) -> bool:
    """Return True during capture of a CUDA graph, where kernels also take calls left to torch (`small`)."""
    on_gpu = any(tensor is not None and tensor.is_cuda for tensor in tensors)
    return on_gpu and torch.cuda.is_current_stream_capturing()


def _is_view(function: Any, result: Any, arguments: Sequence[Any]) -> bool:
    """Return True if an operator computes nothing, and its results lie in its first argument's memory."""
    results = result if isinstance(result, list | tuple) else (result,)
    if function._schema.is_mutable or not arguments or not isinstance(arguments[0], torch.Tensor):
        return False
    storage = arguments[0].untyped_storage()._cdata
    return all(isinstance(one, torch.Tensor) and one.untyped_storage()._cdata == storage for one in results)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return True if both tensors view the same memory in the same way."""
    same = one.data_ptr() == other.data_ptr() and one.dtype == other.dtype
    return same and one.shape == other.shape and one.stride() == other.stride()


def _extent(tensor: torch.Tensor) -> int:
    """Return the number of bytes from the first element to the end of the last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _spelled(fields: str) -> str:
    """Return a struct format without counts: `2qd` becomes `qqd`."""
    return "".join(kind * int(count or 1) for count, kind in re.findall(r"(\d*)([a-z])", fields))
