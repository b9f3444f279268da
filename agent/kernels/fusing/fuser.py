"""Fusion of a model on its example: trace, check of each pair, swap, and comparison of the outputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from agent.kernels.fusing import plans
from agent.kernels.fusing.joining import crosses
from agent.kernels.fusing.sites import Site
from agent.kernels.fusing.states import Buffers, Numbers
from agent.kernels.fusing.tracing import line
from agent.kernels.fusing.watched import Candidate, Watched, watched
from agent.kernels.fusing.watching import Watch
from agent.kernels.replaced import Fusion, Gain, Replaced

ITSELF = "the model itself"
Example = torch.Tensor | Sequence[Any] | Mapping[str, Any]


def fuse(model: nn.Module, example: Example, done: Replaced) -> float:
    """Fuse in place what can be fused, record it in `done`, and return the difference of the outputs.

    The difference is the largest of the example's outputs before and after, as a share of their rms. Raises
    ValueError if the model does not accept the example; the model is then unchanged.
    """
    args, kwargs = arguments(example)
    numbers, buffers = Numbers.now((*args, *kwargs.values(), *model.parameters())), Buffers.now(model)
    try:
        seen = watched(model, lambda: _run(model, args, kwargs))
        buffers.set()
        numbers.set()
        watch = Watch(seen)
        try:
            before = _run(model, args, kwargs)
        finally:
            watch.close()
    except Exception as error:
        raise ValueError(f"the model does not take the example inputs: {line(error)}") from error
    finally:
        buffers.set()
        numbers.set()
    undo = [back for module, known in seen.items() for back in _swapped(module, known, done)]
    try:
        difference = _difference(before, _run(model, args, kwargs)) if undo else 0.0
    except Exception as error:  # noqa: BLE001 - the user's model has to go on as it was
        for back in undo:
            back()
        done.fused.clear()
        done.kept[ITSELF] = f"its fused forward fails: {line(error)}"
        return 0.0
    finally:
        buffers.set()
        numbers.set()
    done.undo.extend(undo)
    return difference


def arguments(example: Example) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the example's positional and named arguments."""
    if isinstance(example, Mapping):
        return (), dict(example)
    return ((example,) if isinstance(example, torch.Tensor) else tuple(example)), {}


def _run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors of the model's output. The model gets copies of the inputs: it may write to them."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    # Compiled parts run eagerly here, so that hooks see their modules.
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        output = model(*args, **kwargs)
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def _swapped(module: nn.Module, known: Watched, done: Replaced) -> list[Any]:
    """Return functions that undo the fusion of this module; empty if nothing was fused."""
    name = known.name or ITSELF
    if known.why:
        done.kept.setdefault(name, f"no pair in it was fused: {known.why}")
    for candidate in (known.joined, known.own):
        if candidate is None or known.call is None:
            continue
        where = "across its modules" if candidate.inner else "in it"
        if candidate.why:
            done.kept.setdefault(name, f"no pair {where} was fused: {candidate.why}")
            continue
        losses = {site: loss for site in candidate.chosen if (loss := _loss(candidate, site, module))}
        chosen = [site for site in candidate.chosen if site not in losses]
        told = {site for site in candidate.sites if candidate.is_told(site.found)}
        kept = {**candidate.kept, **{site.label: loss for site, loss in losses.items() if site in told}}
        done.kept.update({f"{name}: {label}": why for label, why in kept.items()})
        ours = [site for site in chosen if site in told]
        if not ours or (candidate.inner and not any(crosses(site.found) for site in ours)):
            continue
        for site in ours:
            done.fused[f"{name}: {site.label}"] = _fusion(candidate, site)
        made = plans.plan(module, known.call, candidate.graph, chosen, candidate.inner)
        return [plans.swap(module, made)]
    return []


def _loss(candidate: Candidate, site: Site, module: nn.Module) -> str | None:
    gain = _sum(candidate.gains.get(site, []))
    return None if gain is None else gain.loss(module.training)


def _fusion(candidate: Candidate, site: Site) -> Fusion:
    error = max(one.error for one in candidate.passed[site])
    before = max(one.error_before for one in candidate.passed[site])
    gain = _sum(candidate.gains.get(site, []))
    return Fusion(site.pattern.name, site.pattern.kernel, error, before, gain)


def _sum(gains: Sequence[Gain]) -> Gain | None:
    """Return the sum of the gains over a site's calls with inputs of different forms; None without gains."""
    if not gains:
        return None
    return Gain(
        gains[0].gpu, sum(one.before_ms for one in gains), sum(one.after_ms for one in gains),
        sum(one.step_before_ms for one in gains), sum(one.step_after_ms for one in gains),
    )  # fmt: skip


def _difference(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> float:
    worst = 0.0
    for one, two in zip(before, after, strict=True):
        if one.is_floating_point() and one.numel():
            size = float(one.double().square().mean().sqrt()) or 1.0
            worst = max(worst, float((one.double() - two.double()).abs().max()) / size)
    return worst
