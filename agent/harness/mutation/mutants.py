"""Wrong answers made from the reference itself, which the problem's inputs have to tell from right ones.

Null answers need almost no computation: zeros, the mean everywhere, a copied input, or missing last elements.
Mutants are the reference in float64 with one fault:

- one operator dropped, its affine step ignored, or its eps dropped or doubled
- a sum of few results without some of its terms or in a shorter dtype (`agent.harness.mutation.lost_terms`)
- a recurrent layer with a fault at every step (`agent.harness.mutation.recurrent_faults`)

A further wrong answer is the reference in float32 with every operator's result rounded to float16. The
reference's operators are mutated while they run, so its source need not be understood.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from agent.diagnosis.tape import bound
from agent.harness.mutation import lost_terms, recurrent_faults
from agent.harness.truth.draws import tree_map
from agent.harness.worker.memory_guards import leaves

LAST_BLOCK = 32
MAX_SITES = 40
"""Maximum number of operator mutations; of more possible ones, an evenly spaced subset is used."""
SMALL_EPS = 1e-3
"""Maximum constant that counts as an eps when it is added."""
CHANGES = (
    "dropped", "ignored", "doubled", "taken for causal", "taken for constant",
    *lost_terms.REWRITES, *recurrent_faults.ENDS,
)  # fmt: skip
"""Endings of the names of mutated operators and ignored inputs."""
TERMS = ("weight ignored", "bias ignored", "eps dropped", "eps doubled")
"""Mutations of an operator's eps, weight or bias."""
EVERY = "every "
"""Start of the name of a mutation that affects all operators of one kind together."""
_MOVES = {
    "clone",
    "_to_copy",
    "copy_",
    "copy",
    "contiguous",
    "alias",
    "detach",
    "expand",
    "view",
    "lift_fresh",
}

Rewrite = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class Site(NamedTuple):
    """One mutation of one operator call."""

    call: int
    op: str
    change: str

    def __str__(self) -> str:
        return f"{self.op} (operator {self.call + 1}), {self.change}"


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that counts operator calls and hands each to `self.call`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        number, self.calls = self.calls, self.calls + 1
        return self.call(number, func, args, kwargs or {})

    def call(self, number: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)


class _Layers(TorchFunctionMode):
    """Function mode that hands whole recurrent layers to a dispatch mode, as one operator each."""

    def __init__(self, mode: "_WithLayers") -> None:
        super().__init__()
        self._mode = mode

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not recurrent_faults.is_layer(func, args, kwargs or {}):
            return func(*args, **kwargs or {})
        number, self._mode.calls = self._mode.calls, self._mode.calls + 1
        with _disable_current_modes():
            return self._mode.layer(number, func, args)


class _WithLayers(_Mode):  # type: ignore[no-untyped-call]
    """Dispatch mode that counts a recurrent layer as one operator and hands it to `self.layer`."""

    def __init__(self) -> None:
        super().__init__()
        self._layers = _Layers(self)

    def __enter__(self) -> Self:
        self._layers.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._layers.__exit__(*error)  # type: ignore[no-untyped-call]

    def layer(self, number: int, func: Any, args: tuple[Any, ...]) -> Any:
        return func(*args)


class Sites(_WithLayers):  # type: ignore[no-untyped-call]
    """Dispatch mode that collects the possible mutations of the run inside, in any dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Site] = []

    def call(self, number: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        self.found += [Site(number, _name(func), change) for change in _changes(func, args, kwargs, result)]
        return result

    def layer(self, number: int, func: Any, args: tuple[Any, ...]) -> Any:
        self.found += [Site(number, func.__name__, change) for change in recurrent_faults.changes(func, args)]
        return func(*args)

    def chosen(self) -> list[Site]:
        step = max(1, -(-len(self.found) // MAX_SITES))
        return self.found[::step]

    def together(self) -> dict[str, list[Site]]:
        """Return the mutations in `TERMS` that apply to several operators of one kind, by name."""
        kinds: dict[str, list[Site]] = {}
        for site in self.found:
            if site.change in TERMS:
                kinds.setdefault(f"{EVERY}{site.op}, {site.change}", []).append(site)
        return {name: sites for name, sites in kinds.items() if len(sites) > 1}


class Mutated(_WithLayers):  # type: ignore[no-untyped-call]
    """Dispatch mode that applies the mutations of `sites`, at most one per operator call."""

    def __init__(self, *sites: Site) -> None:
        super().__init__()
        self._changes = {site.call: site.change for site in sites}

    def call(self, number: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if number not in self._changes:
            return func(*args, **kwargs)
        return _REWRITES[self._changes[number]](func, args, kwargs)

    def layer(self, number: int, func: Any, args: tuple[Any, ...]) -> Any:
        if number not in self._changes:
            return func(*args)
        return recurrent_faults.changed(self._changes[number], func, args)


class Halved(_Mode):  # type: ignore[no-untyped-call]
    """Dispatch mode that rounds every float32 result to float16."""

    def call(self, number: int, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        if func.is_view or func._schema.is_mutable:
            return result
        return tree_map(lambda t: t.half().float() if t.dtype is torch.float32 else t, result)


def null_answers(native: Any, inputs: Any) -> Iterator[tuple[str, Any]]:
    """Yield null answers, which need almost no computation, each with its name.

    An input is copied only if it has the output's shape and dtype. The mean is left out if outputs have one
    element, as it would be right.
    """
    outputs = leaves(native)
    several = any(out.numel() > 1 for out in outputs)
    yield "zeros", tree_map(torch.zeros_like, native)
    if several:
        yield "the mean everywhere", tree_map(_averaged, native)
    for number, given in enumerate(leaves(inputs)):
        if outputs and all((out.shape, out.dtype) == (given.shape, given.dtype) for out in outputs):
            yield f"input {number} copied", tree_map(lambda t, given=given: given, native)
    if several:
        yield "last block missing", tree_map(_shortened, native)


def _averaged(t: torch.Tensor) -> torch.Tensor:
    if t.numel() == 0 or t.is_complex():
        return t
    finite = t[torch.isfinite(t)].double() if t.is_floating_point() else t.double()
    return torch.full_like(t, float(finite.mean()) if finite.numel() else 0.0)


def _shortened(t: torch.Tensor) -> torch.Tensor:
    short = t.clone(memory_format=torch.contiguous_format).reshape(-1)
    short[-min(LAST_BLOCK, max(t.numel() // 2, 1)) :] = 0
    return short.reshape(t.shape)


def _name(func: Any) -> str:
    return str(func._schema.name).split("::")[-1]


def _changes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> list[str]:
    """Return the names of possible faults of an operator call."""
    if func.is_view or _name(func) in _MOVES:
        return []
    given = bound(func, args, kwargs)
    changes = ["dropped"] if _operand_like(given, result) is not None else []
    changes += [f"{name} ignored" for name in ("weight", "bias") if _optional(func, given, name)]
    if isinstance(given.get("beta"), (int, float)) and given["beta"]:
        changes.append("bias ignored")
    if isinstance(given.get("eps"), float) and given["eps"]:
        changes += ["eps dropped", "eps doubled"]
    if _name(func) in ("add", "add_") and _small(given.get("other")):
        changes.append("eps doubled")
    return changes + lost_terms.changes(func, args, kwargs, result)


def _optional(func: Any, given: dict[str, Any], name: str) -> bool:
    """Return True if the argument `name` is an optional tensor and was passed."""
    kinds = {argument.name: str(argument.type) for argument in func._schema.arguments}
    return isinstance(given.get(name), torch.Tensor) and kinds.get(name) == "Optional[Tensor]"


def _small(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dim() == 0 and value.is_floating_point() and 0 < abs(float(value)) <= SMALL_EPS
    return isinstance(value, float) and 0 < abs(value) <= SMALL_EPS


def _operand_like(given: dict[str, Any], result: Any) -> torch.Tensor | None:
    """Return the first operand with the shape and dtype of the result, or None."""
    if not isinstance(result, torch.Tensor):
        result = next(iter(leaves(result)), None) if isinstance(result, (list, tuple)) else None
    if result is None:
        return None
    for value in given.values():
        if isinstance(value, torch.Tensor) and (value.shape, value.dtype) == (result.shape, result.dtype):
            return value
    return None


def _dropped(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    operand = _operand_like(bound(func, args, kwargs), func(*tree_map(torch.clone, args), **kwargs))
    assert operand is not None
    if func._schema.is_mutable:
        return operand
    copy, whole = operand.clone(), func(*args, **kwargs)
    return (copy, *whole[1:]) if isinstance(whole, tuple) else copy


def _with(name: str, change: Callable[[Any], Any]) -> Rewrite:
    def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = bound(func, args, kwargs)
        key = "beta" if name == "bias" and name not in given else name
        key = "other" if name == "eps" and name not in given else key
        given[key] = 0 if key == "beta" else change(given[key])
        positional = [a.name for a in func._schema.arguments if not a.kwarg_only]
        named = {a.name: given[a.name] for a in func._schema.arguments if a.kwarg_only}
        return func(*(given[key] for key in positional), **named)

    return run


_REWRITES: dict[str, Rewrite] = {
    "dropped": _dropped,
    "weight ignored": _with("weight", lambda value: None),
    "bias ignored": _with("bias", lambda value: None),
    "eps dropped": _with("eps", lambda value: 0.0),
    "eps doubled": _with("eps", lambda value: 2 * value),
    **lost_terms.REWRITES,
}
