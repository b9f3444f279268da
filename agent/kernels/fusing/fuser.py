"""Fuses a model on its example inputs: one run that looks, the swap, and a second run that compares."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from agent.kernels.fusing import plans
from agent.kernels.fusing.states import Numbers, put, taken
from agent.kernels.fusing.tracing import line
from agent.kernels.fusing.watching import Watch, Watched
from agent.kernels.replaced import Fusion, Gain, Replaced

ITSELF = "the model itself"
Example = torch.Tensor | Sequence[Any] | Mapping[str, Any]


def fuse(model: nn.Module, example: Example, done: Replaced) -> float:
    """Fuses in place what it can and tells of it in `done`; answers how far the outputs of the example moved.

    Raises ValueError where the model does not take the example; nothing is changed then.
    """
    args, kwargs = _arguments(example)
    watch = Watch(model)
    numbers, buffers = Numbers.now((*args, *kwargs.values(), *model.parameters())), taken(model)
    try:
        before = _run(model, args, kwargs)
    except Exception as error:
        raise ValueError(f"the model does not take the example inputs: {line(error)}") from error
    finally:
        watch.close()
        put(model, buffers)
        numbers.set()
    undo = [back for module, known in watch.seen.items() for back in _swapped(module, known, done)]
    try:
        difference = _difference(before, _run(model, args, kwargs)) if undo else 0.0
    except Exception as error:  # noqa: BLE001 - the user's model has to go on as it was
        for back in undo:
            back()
        done.fused.clear()
        done.kept[ITSELF] = f"its fused forward fails: {line(error)}"
        return 0.0
    finally:
        put(model, buffers)
        numbers.set()
    done.undo.extend(undo)
    return difference


def _arguments(example: Example) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    return ((example,) if isinstance(example, torch.Tensor) else tuple(example)), {}


def _run(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Tensors of its output. The inputs are copies: a model may write to them."""
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    # What is compiled already runs as it is written, so that its modules are seen.
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        output = model(*args, **kwargs)
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def _swapped(module: nn.Module, known: Watched, done: Replaced) -> list[Any]:
    """What undoes it; nothing where nothing was fused."""
    name = known.name or ITSELF
    if known.why:
        done.kept.setdefault(name, f"no pair in it was fused: {known.why}")
    if known.why is not None or known.call is None or known.graph is None:
        return []
    done.kept.update({f"{name}: {label}": why for label, why in known.kept.items()})
    chosen = []
    for site in known.chosen:
        gain = _sum(known.gains.get(site, []))
        loss = None if gain is None else gain.loss(module.training)
        label = f"{name}: {site.label}"
        if loss is not None:
            done.kept[label] = loss
            continue
        chosen.append(site)
        error = max(one.error for one in known.passed[site])
        before = max(one.error_before for one in known.passed[site])
        done.fused[label] = Fusion(site.pattern.name, site.pattern.kernel, error, before, gain)
    if not chosen:
        return []
    return [plans.swap(module, plans.plan(module, known.call, known.graph, chosen))]


def _sum(gains: Sequence[Gain]) -> Gain | None:
    """Of the calls of one place with inputs of other forms."""
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
