"""Module that runs its graph with fused calls, and its own forward for any call of another form.

The module stays the same object. Its class is replaced by a derived class, as in torch's parametrizations, so
parameters, names, hooks and `isinstance` are kept. Restoring the class undoes the fusion. A pickle contains
the original class; a deep copy is fused, too.
"""

import copy
import copyreg
import functools
import linecache
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from torch import fx, nn

from agent.kernels.fusing.calls import Call, is_plain, is_same
from agent.kernels.fusing.sites import Site, has_hooks, is_alone, rewritten

_OF_TORCH = frozenset(nn.Module().__dict__)
_MISSING = object()
_numbers = count()


@dataclass(frozen=True)
class State:
    """Assumptions of a trace about its module. If one no longer holds, the module's own forward runs."""

    attributes: Mapping[str, Any]
    """Plain values of the module's own attributes. Values inside other objects, such as a configuration, are
    unchecked."""
    children: Mapping[tuple[str, ...], tuple[str, ...]]
    """Names of the children of the module, and of each container that the graph reaches into."""
    absorbed: Mapping[tuple[str, ...], type[nn.Module]]
    """Paths of the modules whose operations are fused and that are no longer called, with their classes."""
    inner: Mapping[tuple[str, ...], tuple[type[nn.Module], "State"]]
    """Paths of the modules whose forwards are inlined in the graph, with their classes and assumptions."""

    def holds(self, module: nn.Module) -> bool:
        """Return True if all assumptions hold, and no module that is skipped has hooks."""
        for name, value in self.attributes.items():
            found = getattr(module, name, _MISSING)
            if found is not value and not is_same(found, value):
                return False
        for path, names in self.children.items():
            inner = _reached(module, path)
            if inner is None or (*inner._modules,) != names:
                return False
        for path, kind in self.absorbed.items():
            inner = _reached(module, path)
            if inner is None or not isinstance(inner, kind) or has_hooks(inner):
                return False
        for path, (kind, state) in self.inner.items():
            inner = _reached(module, path)
            if inner is None or own_class(inner) is not kind or not is_alone(inner):
                return False
            if has_hooks(inner) or not state.holds(inner):
                return False
        return True


@dataclass(frozen=True)
class Plan:
    """Graph with fused calls, and the conditions for running it."""

    call: Call
    state: State
    run: Callable[..., Any]


def plan(
    module: nn.Module, call: Call, graph: fx.Graph, chosen: Iterable[Site], inner: Iterable[str] = ()
) -> Plan:
    """Return the plan of a traced module; `inner` are the paths of modules inlined in its graph."""
    chosen = list(chosen)
    return Plan(call, _state(module, graph, chosen, inner), _function(rewritten(graph, chosen)))


def swap(module: nn.Module, made: Plan) -> Callable[[], None]:
    """Make the module follow the plan, and return a function that restores its class."""
    kind = type(module)
    swapped = _class(kind, made)
    module.__class__ = swapped

    def undo() -> None:
        if type(module) is swapped:
            module.__class__ = kind

    return undo


def own_class(module: nn.Module) -> type[nn.Module]:
    """Return the module's class, or the class that it had before it followed a plan."""
    found: type[nn.Module] = getattr(type(module), "_fused_from", type(module))
    return found


def _class(kind: type[nn.Module], made: Plan) -> type[nn.Module]:
    own: Callable[..., Any] = kind.forward

    @functools.wraps(own)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        values = made.call.values(args, kwargs)
        if values is None or not made.state.holds(self):
            return own(self, *args, **kwargs)
        return made.run(self, *values)

    def reduced(self: nn.Module, protocol: Any) -> Any:
        # The derived class cannot be imported, and a pickle has to load without this library.
        found: Any = kind.__reduce_ex__(self, protocol)
        if found[1] != (swapped,):
            return found
        return (copyreg._reconstructor, (kind, object, None), *found[2:])  # type: ignore[attr-defined]

    def copied(self: nn.Module, memo: dict[int, Any]) -> nn.Module:
        new: nn.Module = swapped.__new__(swapped)
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    body: dict[str, Any] = {"forward": forward, "__reduce_ex__": reduced, "_fused_from": kind}
    if not hasattr(kind, "__deepcopy__"):
        body["__deepcopy__"] = copied
    swapped: Any = type(f"Fused{kind.__name__}", (kind,), {**body, "__module__": kind.__module__})
    made_class: type[nn.Module] = swapped
    return made_class


def _state(module: nn.Module, graph: fx.Graph, chosen: list[Site], inner: Iterable[str]) -> State:
    holders: set[tuple[str, ...]] = {()}
    for node in graph.nodes:
        if node.op in ("call_module", "get_attr"):
            *above, _ = str(node.target).split(".")
            holders.update(tuple(above[: depth + 1]) for depth in range(len(above)))
    called = [path for site in chosen for path in site.found.called]
    return State(
        _attributes(module),
        {path: (*module.get_submodule(".".join(path))._modules,) for path in sorted(holders)},
        {tuple(path.split(".")): _kind(module.get_submodule(path)) for path in called},
        {tuple(path.split(".")): _inner_state(module.get_submodule(path)) for path in inner},
    )


def _inner_state(module: nn.Module) -> tuple[type[nn.Module], State]:
    return own_class(module), State(_attributes(module), {(): (*module._modules,)}, {}, {})


def _attributes(module: nn.Module) -> dict[str, Any]:
    return {
        name: copy.copy(value)
        for name, value in module.__dict__.items()
        if name not in _OF_TORCH and is_plain(value)
    }


def _kind(module: nn.Module) -> type[nn.Module]:
    """Return torch's class, also for a shipped module: `replace_modules` may swap the two."""
    return next((kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.")), type(module))


def _reached(module: nn.Module | None, path: tuple[str, ...]) -> nn.Module | None:
    """Return the module at a path, or None.

    `nn.Module.__getattr__` would take longer than all other checks before a call.
    """
    for name in path:
        module = None if module is None else module._modules.get(name)
    return module


def _function(graph: fx.Graph) -> Callable[..., Any]:
    code = graph.python_code("self")
    # The file name lies in this folder, so that warnings of the library point to the user's line.
    name = str(Path(__file__).parent / f"<graph {next(_numbers)}>")
    source = code.src
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = dict(code.globals)
    exec(compile(source, name, "exec"), scope)
    made: Callable[..., Any] = scope["forward"]
    return made
