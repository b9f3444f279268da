"""A run of the model on its example: each module traced as it is called, its pairs checked in place.

After a module's forward its graph runs on the same inputs, from the same random state and buffers. Where that
gives something else the module stays; at each pair the fused call is compared with it (`comparing`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

from agent.kernels.fusing.calls import Call, Unfit, call_of, is_plain
from agent.kernels.fusing.comparing import Compared, Worse, compared, measured
from agent.kernels.fusing.patterns import NORMS
from agent.kernels.fusing.sites import Site, sites
from agent.kernels.fusing.states import Numbers, put, taken
from agent.kernels.fusing.tracing import line, traced
from agent.kernels.replaced import Gain

ROUNDINGS = 64
"""In which two runs of the same operations may differ: sums by atomics differ from run to run."""


@dataclass
class Watched:
    """One module, as its first call was."""

    name: str
    call: Call | None = None
    graph: fx.Graph | None = None
    sites: list[Site] = field(default_factory=list)
    passed: dict[Site, list[Compared]] = field(default_factory=dict)
    gains: dict[Site, list[Gain]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """Labels of its pairs that stay, and why."""
    why: str | None = None
    """Why the module stays altogether."""
    forms: set[object] = field(default_factory=set)
    """Of the calls that were checked."""

    @property
    def chosen(self) -> list[Site]:
        """What may be fused."""
        return [] if self.why else [site for site in self.sites if site in self.passed]


@dataclass(frozen=True)
class _Started:
    """A call that is checked when it is done."""

    values: list[Any]
    """What the traced parameters got."""
    copies: list[Any]
    numbers: Numbers
    buffers: list[torch.Tensor]


class Watch:
    """Hooks on every module of a model, from the first call to `close`."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[nn.Module, Watched] = {}
        self._names = {module: name for name, module in model.named_modules()}
        self._started: list[_Started | None] = []
        self._is_checking = False
        self._times: dict[object, Gain | None] = {}
        self._hooks = []
        for module in self._names:
            if not _is_torchs(module):
                self._hooks += [
                    module.register_forward_pre_hook(self._before, with_kwargs=True),
                    module.register_forward_hook(self._after, prepend=True, with_kwargs=True),
                ]

    def close(self) -> None:
        """Takes the hooks off again."""
        for hook in self._hooks:
            hook.remove()

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._is_checking:
            return
        self._is_checking = True
        try:
            self._started.append(self._start(module, args, kwargs))
        finally:
            self._is_checking = False

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if self._is_checking:
            return
        started = self._started.pop()
        if started is None:
            return
        self._is_checking = True
        known = self.seen[module]
        try:
            self._check(known, module, started, output)
        except Exception as error:  # noqa: BLE001 - whatever fails here, the user's model goes on
            known.why = str(error) if isinstance(error, Unfit) else f"its graph does not run: {line(error)}"
        finally:
            self._is_checking = False

    def _start(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Started | None:
        known = self.seen.get(module)
        if known is None:
            known = self.seen[module] = _first_seen(self._names[module], module, args, kwargs)
        values = known.call.values(args, kwargs) if known.call is not None and known.sites else None
        if values is None or known.why is not None:
            return None
        form = _form(values)
        if form in known.forms:
            return None
        known.forms.add(form)
        return _Started(values, _copied(values), Numbers.now(values), taken(module))

    def _check(self, known: Watched, module: nn.Module, started: _Started, output: Any) -> None:
        after, numbers = taken(module), Numbers.now(started.values)
        put(module, started.buffers)
        started.numbers.set()
        try:
            found = _Checked(self, known, module).run(*started.copies)
        finally:
            put(module, after)
            numbers.set()
        if not _is_alike(found, output):
            raise Unfit("its trace gives something else than its forward")
        if not _is_alike(started.copies, started.values):
            raise Unfit("its forward changes its inputs, and its trace does not")

    def compare(self, known: Watched, site: Site, module: nn.Module, inputs: list[torch.Tensor]) -> None:
        """One pair at one call of it."""
        if site.label in known.kept:
            return
        try:
            known.passed.setdefault(site, []).append(compared(site, module, inputs))
            key = (site.pattern.name, site.found.settings, _form(inputs), _form(_parameters(site, module)))
            if key not in self._times:
                self._times[key] = measured(site, module, inputs)
            gain = self._times[key]
            if gain is not None:
                known.gains.setdefault(site, []).append(gain)
        except Exception as error:  # noqa: BLE001 - out of memory, a kernel that fails: the pair stays
            known.passed.pop(site, None)
            known.kept[site.label] = str(error) if isinstance(error, Worse) else line(error)


class _Checked(fx.Interpreter):
    """Runs the graph as it was traced, and looks at each pair when it has been computed."""

    def __init__(self, watch: Watch, known: Watched, module: nn.Module) -> None:
        super().__init__(module, garbage_collect_values=False, graph=known.graph)
        self._compare = watch.compare
        self._known = known
        self._ends = {site.found.absorbed[-1]: site for site in known.sites}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        site = self._ends.get(n)
        if site is not None:
            # The interpreter has a value for a node when the node is done.
            self._compare(self._known, site, self.module, [self.env[one] for one in site.found.inputs])
        return result


def _first_seen(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watched:
    made = Watched(name)
    try:
        made.call = call_of(type(module).forward, args, kwargs)
        made.graph = traced(module, made.call)
    except Unfit as error:
        # Of a module without a norm of its own there is nothing to say.
        made.why = str(error) if any(type(child) in NORMS for child in _own(module)) else ""
        made.call = None
        return made
    found = sites(made.graph, module)
    made.sites, made.kept = found.fit, found.kept
    return made


def _own(module: nn.Module) -> list[nn.Module]:
    """Children, and those in its containers."""
    found = []
    for child in module.children():
        found += _own(child) if type(child) in (nn.ModuleList, nn.ModuleDict) else [child]
    return found


def _is_torchs(module: nn.Module) -> bool:
    """Whether it is one operation of torch's, or of this library, in which there is nothing to find."""
    kind = type(module)
    if isinstance(module, torch.jit.ScriptModule | fx.GraphModule) or hasattr(kind, "_fused_from"):
        return True
    return kind is not nn.Sequential and kind.__module__.startswith(("torch.nn.", "agent.kernels."))


def _parameters(site: Site, module: nn.Module) -> list[torch.Tensor]:
    return [value for path in site.found.modules for value in module.get_submodule(path).parameters()]


def _form(values: Sequence[Any]) -> object:
    return tuple(
        (tuple(leaf.shape), leaf.dtype, leaf.device, leaf.stride())
        if isinstance(leaf, torch.Tensor)
        else None
        for leaf in pytree.tree_leaves(list(values))
    )


def _copied(values: list[Any]) -> list[Any]:
    made: list[Any] = pytree.tree_map_only(torch.Tensor, torch.clone, values)
    return made


def _is_alike(one: Any, two: Any) -> bool:
    ours, shape = pytree.tree_flatten(_mutable(one))
    theirs, wanted = pytree.tree_flatten(two)
    return shape == wanted and all(map(_is_close, ours, theirs))


def _mutable(value: Any) -> Any:
    """A graph's own lists and dicts, as the forward gives them."""
    if isinstance(value, immutable_dict):
        return {name: _mutable(inner) for name, inner in value.items()}
    if isinstance(value, immutable_list):
        return [_mutable(inner) for inner in value]
    return tuple(map(_mutable, value)) if type(value) is tuple else value


def _is_close(one: Any, two: Any) -> bool:
    if not isinstance(two, torch.Tensor):
        if not is_plain(two):
            raise Unfit(f"it gives a {type(two).__name__}, which cannot be compared")
        return bool(one == two)
    if not isinstance(one, torch.Tensor) or (one.shape, one.dtype) != (two.shape, two.dtype):
        return False
    if torch.equal(one, two):
        return True
    if not two.is_floating_point():
        return False
    finite = two[two.isfinite()]
    allowed = ROUNDINGS * torch.finfo(two.dtype).eps * float(finite.abs().max() if finite.numel() else 0)
    return torch.allclose(one, two, rtol=0, atol=allowed, equal_nan=True)
