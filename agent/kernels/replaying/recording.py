"""Records what a call of a kernel allocates and launches, for `csrc/replaying.cpp` to do again.

A recipe says: tensors to allocate, launches with the fields of their structs, and which fields are addresses
of which tensors. Tensors are known by number, those of the call first. Whatever else a call does, or an
address that is no tensor's, and there is no recipe: calls of that kind remain Python's.
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
"""(allocations, launches, results, whether there is one result alone, gradient or None), as `Recipe` of
csrc/recording.h reads it."""
Known = Recipe | bool | None
"""A recipe; None: there is none for this kind; False: nothing is known of it."""
Tensors = Sequence[torch.Tensor | None]
NONE = -1
LOWEST_ADDRESS = 2**32
"""Of any tensor's memory, on the host and on a device; sizes are below."""
_ATEN = torch.ops.aten
ALLOCATIONS = {
    _ATEN.empty.memory_format, _ATEN.empty_like.default, _ATEN.empty_strided.default,
    _ATEN.new_empty.default, _ATEN.new_empty_strided.default,
}  # fmt: skip


class NotReplayable(Exception):
    """A call does something that a recipe cannot say."""


def record(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> tuple[Any, Known]:
    """The function's result, and what is known of its kind."""
    tensors = [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
    if _is_captured(tensors):
        return function(*arguments, **named), False
    with Recorder(tensors) as recorder:
        result = function(*arguments, **named)
    return result, recorder.forward(result)


class Recorder(AbstractContextManager["Recorder"]):
    """Watches this thread while the `tensors` of a call are worked on."""

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
        """The same function of an operator, with its allocations and launches seen."""

        def call(*arguments: Any, **named: Any) -> Any:
            self._operators += 1
            with _Seeing(self):
                return implementation(*arguments, **named)

        return call

    def kept(
        self, operator: "Operator", inputs: Tensors, saved: Tensors, values: Tensors, settings: Sequence[Any]
    ) -> None:
        """What a differentiable call keeps for its gradient."""
        self._kept = operator, inputs, saved, values, settings

    def launched(self, function: int, fields: str, values: tuple[float, ...]) -> None:
        """Of a C function of the one struct."""
        self._launches.append((function, fields, values))

    def dispatched(self, function: Any, result: Any, arguments: Sequence[Any]) -> None:
        """An operator of torch, which allocates, makes a view, or does what cannot be replayed."""
        if function in ALLOCATIONS:
            if result.numel():  # an empty one stands for what is not wanted
                self._tensors.append(result)
        elif not _is_view(function, result, arguments):
            self._is_replayable = False

    def left_to_python(self) -> None:
        """As `watching.leave_to_python` says."""
        self._is_replayable = False

    def forward(self, result: Any) -> Recipe | None:
        """Of a function's call, by what it returned."""
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
        """Of a formula's call, by the gradients that it returned."""
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
        """The tensor that the address lies in, and how far from its start.

        Those that share memory do so in every call of the kind, so that any of them is right.
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
        """Numbers of results: they are what was allocated, and nothing else."""
        numbers = tuple(map(self._number, results))
        if any(0 <= number < self._given for number in numbers):
            raise NotReplayable
        return numbers

    def _number(self, tensor: torch.Tensor | None) -> int:
        if tensor is None:
            return NONE
        for number, known in enumerate(self._tensors):
            # What an allocation returned under a mode reaches its caller as another object.
            if known is tensor or (number >= self._given and known is not None and _is_same(known, tensor)):
                return number
        raise NotReplayable


class Formula:
    """The gradient of a differentiable call, by Python."""

    def __init__(self, operator: "Operator", settings: Sequence[Any]) -> None:
        self._operator, self._settings = operator, settings

    def __call__(
        self, grads: Sequence[Any], saved: Sequence[Any], needed: Sequence[bool], is_recorded: bool
    ) -> tuple[Sequence[Any], Known]:
        """One gradient for each argument, and a recipe where one is asked for; None: there is none."""
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
    """Tells a recorder of every operator of torch."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self._recorder.dispatched(function, result, args)
        return result


def _is_captured(tensors: Tensors) -> bool:
    """Whether a CUDA graph is being made: then other calls are the kernel's than in a plain one (`small`)."""
    on_gpu = any(tensor is not None and tensor.is_cuda for tensor in tensors)
    return on_gpu and torch.cuda.is_current_stream_capturing()


def _is_view(function: Any, result: Any, arguments: Sequence[Any]) -> bool:
    """Whether an operator computes nothing and its results lie in its first argument's memory."""
    results = result if isinstance(result, list | tuple) else (result,)
    if function._schema.is_mutable or not arguments or not isinstance(arguments[0], torch.Tensor):
        return False
    storage = arguments[0].untyped_storage()._cdata
    return all(isinstance(one, torch.Tensor) and one.untyped_storage()._cdata == storage for one in results)


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether they are all of the same memory in the same way."""
    same = one.data_ptr() == other.data_ptr() and one.dtype == other.dtype
    return same and one.shape == other.shape and one.stride() == other.stride()


def _extent(tensor: torch.Tensor) -> int:
    """Bytes from the first element to the end of the last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _spelled(fields: str) -> str:
    """`2qd` as `qqd`."""
    return "".join(kind * int(count or 1) for count, kind in re.findall(r"(\d*)([a-z])", fields))
