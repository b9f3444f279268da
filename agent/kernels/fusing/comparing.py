"""Comparison of a fused call with the operations that it replaces (the pair), on given inputs: accuracy and
time.

The rule is the judge's (docs/integrity-protocol.md). Let `truth` be the pair in float64, and e the error of
the pair in its own dtype. No element may be further from the truth than max(16 max(e), 8 eps rms(truth)) +
1e-5 |truth|. With 64 elements or more, rms(error) may not exceed 8 rms(e) + 4 eps rms(truth). The rule holds
for results, and for the gradients of inputs and parameters under a random gradient of the results.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import fx, nn

from agent.kernels import routing
from agent.kernels.clock import queued
from agent.kernels.fusing.found import in_order
from agent.kernels.fusing.sites import Site
from agent.kernels.replaced import Gain

SAMPLE = 64
"""Minimum number of elements for which the rms of the errors counts."""
ROUNDS = 20
WARM = 3

Tensors = tuple[torch.Tensor, ...]
Run = Callable[[Sequence[torch.Tensor]], Tensors]


@dataclass(frozen=True)
class Side:
    """One way to compute a site, fused or not: a function of its inputs, and the parameters that it uses."""

    run: Run
    parameters: tuple[nn.Parameter, ...]
    constants: int
    """Number of inputs, counted from the last, that get no gradient."""

    def step(self, inputs: Sequence[torch.Tensor], grads: Sequence[torch.Tensor] | None) -> Tensors:
        """Return results, then gradients, with zeros where an input or parameter has no gradient.

        `grads` are the gradients of the results, drawn at random if None.
        """
        free = len(inputs) - self.constants
        leaves = [
            value.detach().requires_grad_(value.is_floating_point() and place < free)
            for place, value in enumerate(inputs)
        ]
        wanted = [*(leaf for leaf in leaves if leaf.requires_grad), *self.parameters]
        with torch.enable_grad():
            results = self.run(leaves)
        if grads is None:
            grads = _drawn(results)
        found = torch.autograd.grad(results, wanted, [*grads], materialize_grads=True)
        return (*(value.detach() for value in results), *found)


@dataclass(frozen=True)
class Compared:
    """Errors of the fused call and of the original operations."""

    error: float
    """Largest error of the fused call, in results and gradients, as a share of their true values' rms."""
    error_before: float
    """Largest error of the original operations, by the same measure as `error`."""


class Worse(Exception):
    """Error for a site that must not be fused; the text is one line with the reason."""


def pair(site: Site, module: nn.Module) -> Side:
    """Return the side of the original operations, run node by node."""
    fetched = {path: module.get_submodule(path) for path in site.found.called}
    return _pair(site, fetched)


def fused(site: Site, module: nn.Module) -> Side:
    """Return the side of the fused call."""
    modules = [module.get_submodule(path) for path in site.found.modules]

    def run(values: Sequence[torch.Tensor]) -> Tensors:
        made = site.pattern.fused(*values, *modules, *site.found.settings)
        return made if isinstance(made, tuple) else (made,)

    return Side(run, _parameters(modules), site.pattern.constants)


def compared(site: Site, module: nn.Module, inputs: Sequence[torch.Tensor]) -> Compared:
    """Return the errors of both sides. Raises Worse if the original operations have to stay."""
    reason = site.pattern.refuses(*inputs)
    if reason is not None:
        raise Worse(reason)
    inputs = [value.detach() for value in inputs]
    plain, ours = pair(site, module), fused(site, module)
    dtype = next((one.dtype for one in (*inputs, *ours.parameters) if one.is_floating_point()), None)
    if dtype is None:
        raise Worse("nothing in it is of floating-point numbers")
    before = sum(routing.fallbacks(site.pattern.kernel).values())
    made = ours.run(inputs)
    if sum(routing.fallbacks(site.pattern.kernel).values()) > before and inputs[0].is_cuda:
        raise Worse(f"{site.pattern.kernel} does not take it: {_last_reason(site.pattern.kernel)}")
    grads = _drawn(made)
    exact = _exact(site, module, dtype).step(
        [value.double() if value.is_floating_point() else value for value in inputs],
        [grad.double() for grad in grads],
    )
    error = pairs = 0.0
    for mine, theirs, truth in zip(
        ours.step(inputs, grads), plain.step(inputs, grads), exact, strict=True
    ):  # fmt: skip
        one, two = _errors(mine, theirs, truth)
        error, pairs = max(error, one), max(pairs, two)
    return Compared(error, pairs)


def measured(site: Site, module: nn.Module, inputs: Sequence[torch.Tensor]) -> Gain | None:
    """Return the times of both sides on this GPU, as in a model that keeps it busy; None on a CPU."""
    if not inputs[0].is_cuda:
        return None
    inputs = [value.detach() for value in inputs]
    sides = {"before": pair(site, module), "after": fused(site, module)}
    grads = _drawn(sides["after"].run(inputs))
    with torch.cuda.device(inputs[0].device):
        with torch.no_grad():
            forward = _times({name: partial(side.run, inputs) for name, side in sides.items()})
        step = _times({name: partial(side.step, inputs, grads) for name, side in sides.items()})
        gpu = torch.cuda.get_device_name()
    return Gain(gpu, forward["before"], forward["after"], step["before"], step["after"])


def _pair(site: Site, fetched: Mapping[str, nn.Module]) -> Side:
    found = site.found

    def run(values: Sequence[torch.Tensor]) -> Tensors:
        env: dict[fx.Node, Any] = dict(zip(found.inputs, values, strict=True))
        for node in in_order((*found.beside, *found.absorbed)):
            args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), env.__getitem__)
            if node.op == "call_module":
                env[node] = fetched[str(node.target)](*args, **kwargs)
            elif node.op == "call_method":
                env[node] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                env[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        return tuple(env[node] for node in found.results)

    return Side(run, _parameters(fetched[path] for path in found.modules), site.pattern.constants)


def _exact(site: Site, module: nn.Module, dtype: torch.dtype) -> Side:
    copies = {}
    for path in site.found.called:
        made: Any = copy.deepcopy(module.get_submodule(path)).double()
        # A shipped module would fall back to torch for float64, with a warning.
        made.__class__ = next(kind for kind in type(made).__mro__ if kind.__module__.startswith("torch."))
        if getattr(made, "eps", 0) is None:
            made.eps = torch.finfo(dtype).eps
        copies[path] = made
    return _pair(site, copies)


def _parameters(modules: Any) -> tuple[nn.Parameter, ...]:
    return tuple(value for module in modules for value in module.parameters() if value.requires_grad)


def _drawn(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return random gradients of the results, equal for both sides, from a generator of their own."""
    generator = torch.Generator(results[0].device).manual_seed(0)
    return [
        torch.randn(value.shape, generator=generator, device=value.device, dtype=value.dtype)
        for value in results
    ]


def _errors(mine: torch.Tensor, theirs: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """Return the errors of `mine` (fused) and `theirs` (original) as shares of the truth's rms.

    Raises Worse if the fused result is not as accurate as the rule demands, or the example has no finite
    results.
    """
    if (mine.shape, mine.dtype, mine.device) != (theirs.shape, theirs.dtype, theirs.device):
        raise Worse(f"it gives {_form(mine)}, and the pair {_form(theirs)}")
    if not (theirs.isfinite().all() and truth.isfinite().all()):
        raise Worse("the example gives values that are not finite, so that nothing can be compared")
    if mine.numel() == 0:
        return 0.0, 0.0
    off, native = (mine.double() - truth).abs(), (theirs.double() - truth).abs()
    eps = torch.finfo(mine.dtype).eps
    size = truth.square().mean().sqrt()
    allowed = torch.maximum(16 * native.max(), 8 * eps * size) + 1e-5 * truth.abs()
    most = 8 * native.square().mean().sqrt() + 4 * eps * size
    is_right = bool((off <= allowed).all())
    if is_right and mine.numel() >= SAMPLE:
        is_right = bool(off.square().mean().sqrt() <= most)
    scale = float(size) or 1.0
    if not is_right:
        raise Worse(f"off by {float(off.max()):.2g} where the pair is off by {float(native.max()):.2g}")
    return float(off.max()) / scale, float(native.max()) / scale


def _times(calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the milliseconds of each call: the median over rounds that alternate between the calls."""
    spans: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(WARM + ROUNDS):
        for name, call in calls.items():
            span = queued(call)
            if turn >= WARM:
                spans[name].append(span)
    return {name: median(values) for name, values in spans.items()}


def _form(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"


def _last_reason(kernel: str) -> str:
    return list(routing.fallbacks(kernel))[-1]
