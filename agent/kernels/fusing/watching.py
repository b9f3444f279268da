"""Run of the model on its example that checks the pairs of each module in place.

After a module's forward, its graph runs on the same inputs, from the same random state and buffers. If the
graph gives a different result, the module is not fused. At each pair the fused call is compared with the
operations that it replaces (`comparing`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils import _pytree as pytree

from agent.kernels.fusing.calls import Unfit, is_plain
from agent.kernels.fusing.comparing import Worse, compared, measured
from agent.kernels.fusing.sites import Site
from agent.kernels.fusing.states import Buffers, Numbers
from agent.kernels.fusing.tracing import line
from agent.kernels.fusing.watched import Candidate, Watched
from agent.kernels.replaced import Gain

ROUNDINGS = 64
"""Allowed difference of two runs of the same operations, in eps of the largest value.

The runs differ because sums by atomics do."""


@dataclass(frozen=True)
class _Started:
    """Call of a module whose graph is checked after the call."""

    values: list[Any]
    """Values of the traced parameters."""
    copies: list[Any]
    numbers: Numbers
    buffers: Buffers


class Watch:
    """Hooks on the traced modules that check each call of a new form. `close` removes them."""

    def __init__(self, seen: dict[nn.Module, Watched]) -> None:
        self._seen = seen
        self._started: list[_Started | None] = []
        self._forms: set[object] = set()
        """Forms of the calls that have been checked."""
        self._is_checking = False
        self._times: dict[object, Gain | None] = {}
        self._hooks = []
        for module, known in seen.items():
            if known.candidates:
                self._hooks += [
                    module.register_forward_pre_hook(self._before, with_kwargs=True),
                    module.register_forward_hook(self._after, prepend=True, with_kwargs=True),
                ]

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._is_checking:
            self._started.append(self._start(module, args, kwargs))

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if self._is_checking:
            return
        started = self._started.pop()
        if started is None:
            return
        self._is_checking = True
        after, numbers = Buffers.now(module), Numbers.now(started.values)
        try:
            for candidate in self._seen[module].candidates:
                self._check(candidate, module, started, output)
        finally:
            after.set()
            numbers.set()
            self._is_checking = False

    def _start(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Started | None:
        known = self._seen[module]
        values = None if known.call is None else known.call.values(args, kwargs)
        if values is None:
            return None
        form = (module, _form(values))
        if form in self._forms:
            return None
        self._forms.add(form)
        return _Started(values, _copied(values), Numbers.now(values), Buffers.now(module))

    def _check(self, candidate: Candidate, module: nn.Module, started: _Started, output: Any) -> None:
        if candidate.why is not None:
            return
        started.buffers.set()
        started.numbers.set()
        inputs = _copied(started.copies)
        try:
            found = _Checked(self._compare, candidate, module).run(*inputs)
            if not _is_alike(found, output):
                raise Unfit("its trace gives something else than its forward")
            if not _is_alike(inputs, started.values):
                raise Unfit("its forward changes its inputs, and its trace does not")
        except Exception as error:  # noqa: BLE001 - whatever fails here, the user's model goes on
            candidate.why = (
                str(error) if isinstance(error, Unfit) else f"its graph does not run: {line(error)}"
            )

    def _compare(
        self, candidate: Candidate, site: Site, module: nn.Module, inputs: list[torch.Tensor]
    ) -> None:
        """Compare a pair with its fused call, and time both, at one of the module's calls."""
        if site in candidate.failed:
            return
        try:
            candidate.passed.setdefault(site, []).append(compared(site, module, inputs))
            key = (site.pattern.name, site.found.settings, _form(inputs), _form(_parameters(site, module)))
            if key not in self._times:
                self._times[key] = measured(site, module, inputs)
            gain = self._times[key]
            if gain is not None:
                candidate.gains.setdefault(site, []).append(gain)
        except Exception as error:  # noqa: BLE001 - out of memory, a kernel that fails: the pair stays
            candidate.passed.pop(site, None)
            candidate.failed.add(site)
            if candidate.is_told(site.found):
                candidate.kept[site.label] = str(error) if isinstance(error, Worse) else line(error)


class _Checked(fx.Interpreter):
    """Interpreter that runs the traced graph, and checks each pair after its last node."""

    def __init__(self, compare: Callable[..., None], candidate: Candidate, module: nn.Module) -> None:
        super().__init__(module, graph=candidate.graph)
        self._compare = compare
        self._candidate = candidate
        self._ends = {site.found.absorbed[-1]: site for site in candidate.sites}
        self._keep(candidate.sites)

    def _keep(self, sites: Iterable[Site]) -> None:
        """Keep the inputs of a pair until its last node; the interpreter drops values after the last use."""
        places = {node: place for place, node in enumerate(self.graph.nodes)}
        last = {node: user for user, nodes in self.user_to_last_uses.items() for node in nodes}
        for site in sites:
            end = site.found.absorbed[-1]
            for node in site.found.inputs:
                user = last.get(node, node)
                if places[user] < places[end]:
                    self.user_to_last_uses[user].remove(node)
                    self.user_to_last_uses.setdefault(end, []).append(node)
                    last[node] = end

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        site = self._ends.get(n)
        if site is not None:
            # The inputs ran before this node, and `_keep` made the interpreter hold on to their values.
            inputs = [self.env[one] for one in site.found.inputs]
            self._compare(self._candidate, site, self.module, inputs)
        return result


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
    """Return the value with a graph's immutable lists and dicts as the ordinary ones that forward returns."""
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
