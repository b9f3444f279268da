"""A recording of the operators that a reference runs, replayable with some of them changed.

Contract: `record(run)` calls `run` under a dispatch mode. `Tape.again` repeats the run with the results of
chosen operator calls replaced; calls that do not depend on them are not computed again. The reference has to
run the same operators each time. Its source is not read. Fused operators of torch are recorded as their parts
(`agent.diagnosis.decompositions`).
"""

import contextlib
import linecache
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from agent.diagnosis import alignments, decompositions
from agent.diagnosis.graph import Arguments, Graph, Rewrite, tensors, written

MOVES = frozenset(
    {"clone", "_to_copy", "copy", "contiguous", "alias", "detach", "lift_fresh", "view", "_unsafe_view"}
)
"""Operators that change neither values nor their positions."""
_FOREIGN = (str(Path(torch.__file__).parent) + os.sep, str(Path(__file__).parents[1]) + os.sep, "<frozen")
"""Path prefixes of code that does not belong to a reference."""


Found = TypeVar("Found")


class TooLarge(MemoryError):
    """Raised when the results of a run exceed the memory limit."""


class Place(NamedTuple):
    """An instruction of the reference; all iterations of a loop share it."""

    file: str
    line: int
    instruction: int
    part: int
    """Index of the call within a decomposed operator."""

    @property
    def text(self) -> str:
        """Return the source line without surrounding whitespace."""
        return linecache.getline(self.file, self.line).strip()


class Call(NamedTuple):
    """One operator call with its arguments and its result."""

    number: int
    func: Any
    given: Arguments
    result: Any
    value: torch.Tensor | None
    """First floating-point result, else the first result, as it was before any later in-place write."""
    place: "Place | None" = None
    """Instruction of the reference that makes the call."""
    written: tuple[torch.Tensor, ...] = ()
    """Tensors that the call writes to."""

    @property
    def name(self) -> str:
        """Return the name without namespace, overload and the underscore of an in-place operator."""
        return operator_name(self.func)

    @property
    def is_view(self) -> bool:
        return bool(self.func.is_view)


@cache
def operator_name(func: Any) -> str:
    """Return the name without namespace, overload and the underscore of an in-place operator."""
    name = str(func._schema.name).split("::")[-1]
    return name.rstrip("_") or name


class Tape:
    """All calls of one run in order, and the run's result."""

    def __init__(self, run: Callable[[], Any], names: Mapping[int, str], most_bytes: float = inf) -> None:
        calls: list[Call] = []
        recorder = _Recorder(calls, most_bytes)
        with torch.no_grad(), recorder:
            result = run()
        self._hold(run, names, calls, result, recorder.before)

    def _hold(
        self, run: Callable[[], Any], names: Mapping[int, str], calls: list[Call], result: Any,
        before: Mapping[int, torch.Tensor],
    ) -> None:  # fmt: skip
        self._run, self._names, self.calls, self.result = run, names, calls, result
        self.in_place = any(call.written for call in self.calls)
        self._made = {id(tensor): call.number for call in self.calls for tensor in tensors(call.result)}
        self._graph = Graph(self.calls, self.result, before)
        self._known: dict[Any, Any] = {}
        self._used: dict[int, list[Call]] = {}
        for call in self.calls:
            for maker in {id(t): self.maker(t) for t in tensors(call.given)}.values():
                if maker is not None and maker.number < call.number:
                    self._used.setdefault(maker.number, []).append(call)

    def maker(self, tensor: Any) -> Call | None:
        """Return the call whose result the tensor is; None for an input or a parameter."""
        number = self._made.get(id(tensor))
        return None if number is None else self.calls[number]

    def once(self, find: "Callable[[Tape], Found]") -> "Found":
        """Return `find(self)`, computed once per tape."""
        if find not in self._known:
            self._known[find] = find(self)
        found: Found = self._known[find]
        return found

    def users(self, call: Call) -> list[Call]:
        """Return the calls that take the result of `call`."""
        return self._used.get(call.number, [])

    def name(self, tensor: Any) -> str | None:
        """Return the name of the input or parameter that the tensor is or views; None if it was computed."""
        before = len(self.calls)
        while id(tensor) not in self._names:
            call = self.maker(tensor)
            # A tensor that is written in place or returned unchanged has no earlier maker.
            if call is None or call.number >= before or not (call.is_view or call.name in MOVES):
                return None
            before, tensor = call.number, tensors(call.given)[0]
        return self._names[id(tensor)]

    def again(
        self, rewrites: Mapping[int, Rewrite], replaced: Mapping[int, torch.Tensor] | None = None
    ) -> Any:
        """Return the result with calls rewritten by number, and inputs or parameters replaced by `id`."""
        # Only the reference's own Python knows how it handles a changed shape, so errors lead to a full run.
        with torch.no_grad(), contextlib.suppress(RuntimeError, IndexError, ValueError, TypeError):
            return self._graph.play(rewrites, replaced or {})
        with torch.no_grad(), _Player(self, rewrites, replaced or {}):
            return self._run()


def record(run: Callable[[], Any], names: Mapping[int, str], most_bytes: float = inf) -> Tape:
    """Record a run; `names` maps the `id` of inputs and parameters to their names.

    Raises what `run` raises. Every result is kept, so TooLarge is raised once they take more than
    `most_bytes`.
    """
    return Tape(run, names, most_bytes)


def _written(func: Any, given: Arguments) -> tuple[torch.Tensor, ...]:
    """Return the tensors that a call writes to.

    Batch norm also writes to its running statistics, which its schema does not say.
    """
    if func._schema.is_mutable:
        named = (a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
        return tuple(t for name in named for t in tensors(given[name]))
    if given.get("running_mean") is not None and given.get("training"):
        return tuple(tensors([given["running_mean"], given["running_var"]]))
    return ()


def bound(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Return every schema argument by name with its value in this call."""
    return {
        argument.name: args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
        for place, argument in enumerate(func._schema.arguments)
    }


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    _within = 0
    """Nesting depth of decomposed operators being run."""
    _part = 0
    """Number of calls that the outermost decomposed operator has made so far."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Returning False keeps the first operator from importing torch's compiler, which takes longer than a
        # diagnosis.
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        plain = decompositions.find_decomposition(func)
        if plain is not None or self._within:
            with self:
                self._part = self._part if self._within else 0
                self._within += 1
                try:
                    # Below autograd torch leaves even matmul and softmax whole unless asked to decompose
                    # them.
                    made = plain(*args, **kwargs) if plain is not None else func.decompose(*args, **kwargs)
                finally:
                    self._within -= 1
            if made is not NotImplemented:
                return made
        return self.call(func, args, kwargs)

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class _Recorder(_Mode):  # type: ignore[no-untyped-call]
    def __init__(self, calls: list[Call], most_bytes: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls, self._left = calls, most_bytes
        self._leaves: dict[int, torch.Tensor] = {}
        self._made: set[int] = set()
        self.before: dict[int, torch.Tensor] = {}
        """Original values of inputs and parameters that are written to, by `id`."""

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = bound(func, args, kwargs)
        for tensor in tensors(given):
            if id(tensor) not in self._made:
                self._leaves[id(tensor)] = tensor
        target = _written(func, given)
        if target:
            self._keep(target)
        result = func(*args, **kwargs)
        made = tensors(result)
        if not (func.is_view or target):
            self._left -= sum(t.numel() * t.element_size() for t in made)
            if self._left < 0:
                raise TooLarge("the results of all operators")
        self._made |= {id(tensor) for tensor in made} - self._leaves.keys()
        value = next((t for t in made if t.is_floating_point()), made[0] if made else None)
        self._part = self._part + 1 if self._within else 0
        place = _place(self._part)
        self._calls.append(Call(len(self._calls), func, given, result, value, place, target))
        return result

    def _keep(self, target: tuple[torch.Tensor, ...]) -> None:
        """Copy the recorded values and leaves that share memory with tensors about to be written."""
        storages = {tensor.untyped_storage().data_ptr() for tensor in target}
        for place, call in enumerate(self._calls):
            if call.value is not None and call.value.untyped_storage().data_ptr() in storages:
                self._calls[place] = call._replace(value=call.value.clone())
        for key, leaf in self._leaves.items():
            if key not in self.before and leaf.untyped_storage().data_ptr() in storages:
                self.before[key] = leaf.clone()


def _place(part: int) -> Place | None:
    """Return the innermost instruction that belongs neither to torch nor to this package."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_FOREIGN):
        if frame.f_code.co_filename == alignments.__file__:
            # A loop inside a decomposed operator counts as a loop of the reference.
            part = frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]
    return frame and Place(frame.f_code.co_filename, frame.f_lineno, frame.f_lasti, part)


class _Player(_Mode):  # type: ignore[no-untyped-call]
    def __init__(self, tape: Tape, rewrites: Mapping[int, Rewrite], replaced: Mapping[int, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tape, self._rewrites, self._replaced = tape, rewrites, replaced
        self._number = 0
        self._views: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._held: list[Any] = []

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        number, self._number = self._number, self._number + 1
        if self._replaced:
            args, kwargs = self._exchanged(args), self._exchanged(kwargs)
        rewrite = self._rewrites.get(number)
        if rewrite is not None:
            return self._rewritten(rewrite, func, bound(func, args, kwargs))
        old = self._tape.calls[number] if number < len(self._tape.calls) else None
        if old is not None and old.func is func and not self._tape.in_place:
            given = bound(func, args, kwargs)
            if all(self._same(given[name], value) for name, value in old.given.items()):
                return self._view(old, func(*args, **kwargs)) if old.is_view else old.result
        # torch detaches a new tensor that something holds. Holding it here, as the recording did, keeps the
        # calls the same.
        self._held.append(func(*args, **kwargs))
        return self._held[-1]

    def _view(self, old: Call, made: Any) -> Any:
        """Remember that a new view stands for the recorded one.

        Torch rejects a second view as an operator's own result.
        """
        for new, recorded in zip(tensors(made), tensors(old.result), strict=True):
            self._views[id(new)] = new, recorded
        return made

    def _rewritten(self, rewrite: Rewrite, func: Any, given: Arguments) -> Any:
        return written(rewrite, given) if func._schema.is_mutable else rewrite(given)

    def _exchanged(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._replaced.get(id(value), value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._exchanged(item) for item in value)
        if isinstance(value, dict):
            return {key: self._exchanged(item) for key, item in value.items()}
        return value

    def _same(self, one: Any, other: Any) -> bool:
        """Return True if an argument equals the recorded one: the same tensor or an equal number."""
        if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
            return one is other or self._views.get(id(one), (None, None))[1] is other
        if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            return len(one) == len(other) and all(map(self._same, one, other))
        return bool(one == other)
