"""Record of each module of a model: the form of its call, its graphs, and the checks of the pairs in them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from agent.kernels.fusing.calls import Call, Unfit, call_of
from agent.kernels.fusing.comparing import Compared
from agent.kernels.fusing.found import Found
from agent.kernels.fusing.joining import joined
from agent.kernels.fusing.patterns import NORMS
from agent.kernels.fusing.sites import Site, sites
from agent.kernels.fusing.tracing import traced
from agent.kernels.replaced import Gain


@dataclass
class Candidate:
    """One graph of a module, and the pairs of operations in it."""

    graph: fx.Graph
    sites: list[Site]
    kept: dict[str, str]
    """Reason by label of each pair that is not fused."""
    inner: tuple[str, ...] = ()
    """Paths of the modules whose forwards are inlined in the graph."""
    is_told: Callable[[Found], bool] = lambda _: True
    """Return True for a pair that this module reports, and not the module that holds it."""
    passed: dict[Site, list[Compared]] = field(default_factory=dict)
    gains: dict[Site, list[Gain]] = field(default_factory=dict)
    failed: set[Site] = field(default_factory=set)
    why: str | None = None
    """Reason why no pair of the graph may be fused."""

    @property
    def chosen(self) -> list[Site]:
        """Return the pairs that may be fused."""
        return [] if self.why is not None else [site for site in self.sites if site in self.passed]


@dataclass
class Watched:
    """One traced module, in the form of its first call."""

    name: str
    call: Call | None = None
    own: Candidate | None = None
    joined: Candidate | None = None
    """Graph with the forwards of the module's children inlined, if a pair spans two of them."""
    why: str | None = None
    """Reason why the module was not traced."""

    @property
    def candidates(self) -> list[Candidate]:
        """Return those of the module's graphs that have a pair."""
        return [one for one in (self.own, self.joined) if one is not None and one.sites]


def watched(model: nn.Module, run: Callable[[], object]) -> dict[nn.Module, Watched]:
    """Return every module that `run` calls, except torch's own, traced in the form of its first call."""
    seen: dict[nn.Module, Watched] = {}
    names = {module: name for name, module in model.named_modules()}

    def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if module not in seen:
            seen[module] = Watched(names[module])  # before the trace, which calls the module again
            seen[module] = _traced(names[module], module, args, kwargs)

    hooks = [
        module.register_forward_pre_hook(look, with_kwargs=True) for module in names if not is_torchs(module)
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    forms = {
        module: (known.call, known.own.graph)
        for module, known in seen.items()
        if known.call is not None and known.own is not None
    }
    for module in forms:
        seen[module].joined = _joined(module, forms)
    return seen


def is_torchs(module: nn.Module) -> bool:
    """Return True for a module without anything to fuse.

    That is a class of torch or of this library, a scripted module, a graph module, or a module already fused.
    """
    kind = type(module)
    if isinstance(module, torch.jit.ScriptModule | fx.GraphModule) or hasattr(kind, "_fused_from"):
        return True
    return kind is not nn.Sequential and kind.__module__.startswith(("torch.nn.", "agent.kernels."))


def _traced(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched:
    made = Watched(name)
    try:
        made.call = call_of(type(module).forward, args, kwargs)
        graph = traced(module, made.call)
    except Unfit as error:
        # A module without a norm of its own is left out of the report.
        made.why = str(error) if any(type(child) in NORMS for child in _own(module)) else ""
        made.call = None
        return made
    found = sites(graph, module)
    made.own = Candidate(graph, found.fit, found.kept)
    return made


def _joined(module: nn.Module, forms: dict[nn.Module, tuple[Call, fx.Graph]]) -> Candidate | None:
    whole = joined(module, forms)
    if whole is None:
        return None

    def is_told(found: Found) -> bool:
        return whole.holder(found) == ()

    found = sites(whole.graph, module, is_told)
    return Candidate(whole.graph, found.fit, found.kept, tuple(dict.fromkeys(whole.calls.values())), is_told)


def _own(module: nn.Module) -> list[nn.Module]:
    """Return the module's children, with containers replaced by their contents."""
    found = []
    for child in module.children():
        found += _own(child) if type(child) in (nn.ModuleList, nn.ModuleDict) else [child]
    return found
