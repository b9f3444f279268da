"""Replacement of torch's modules by the shipped kernels, with a report of what stayed and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from agent.kernels import routing
from agent.kernels.batch_norm.module import BatchNorm1d, BatchNorm2d, BatchNorm3d
from agent.kernels.gelu.module import GELU
from agent.kernels.group_norm.module import GroupNorm
from agent.kernels.instances import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from agent.kernels.layer_norm.module import LayerNorm
from agent.kernels.replaced import Replaced as Replaced
from agent.kernels.rms_norm.module import RMSNorm
from agent.kernels.softmax.module import Softmax

Example = torch.Tensor | Sequence[Any] | Mapping[str, Any]
KINDS: dict[type[nn.Module], type[nn.Module]] = {
    nn.BatchNorm1d: BatchNorm1d,
    nn.BatchNorm2d: BatchNorm2d,
    nn.BatchNorm3d: BatchNorm3d,
    nn.GELU: GELU,
    nn.GroupNorm: GroupNorm,
    nn.InstanceNorm1d: InstanceNorm1d,
    nn.InstanceNorm2d: InstanceNorm2d,
    nn.InstanceNorm3d: InstanceNorm3d,
    nn.LayerNorm: LayerNorm,
    nn.RMSNorm: RMSNorm,
    nn.Softmax: Softmax,
}


def replace_modules(model: nn.Module, example: Example | None = None, compiled: bool = False) -> Replaced:
    """Swap, in place, every submodule that has a shipped kernel; parameters and hooks are kept.

    `example` is an input, a tuple of positional inputs, or a dict of named ones. With it, consecutive
    operations that one kernel computes (a pair) are fused too, also across modules. Each pair is checked on
    the example, forward and backward, and timed on a GPU. The example runs three times without gradients, and
    modules with a pair run once or twice more. Buffers and random states end as they were; state that a
    module keeps elsewhere is not restored.

    With `compiled`, the model is compiled by torch.compile and timed on the example before and after. If it
    became slower, no module is replaced. In training, forward and backward are timed, otherwise the forward,
    and only the timed part is compiled. The call takes as long as two compilations. Host time counts, so no
    other program should run on the machine.

    A module that stands in several places becomes one module in the same places. The model itself stays the
    same object. `restore()` of the result undoes everything.

    Raises ValueError if the model does not accept the example. With `compiled` it is also raised without an
    example, or if no tensor of the example is on a GPU.
    """
    if not compiled:
        return _replaced(model, example)
    from agent.kernels.fusing.tracing import line
    from agent.kernels.fusing.whole import span

    if example is None:
        raise ValueError("compiled=True times the model on an example, and there is none")
    before = span(model, example)
    done = _replaced(model, example)
    try:
        gain = before.gain(span(model, example))
    except Exception as error:  # noqa: BLE001 - the user's model has to go on as it was
        return done.undone(f"torch.compile does not take what was replaced: {line(error)}")
    except BaseException:  # an interrupt: compiling takes minutes
        done.restore()
        raise
    if gain.loss is not None:
        return done.undone(f"under torch.compile {gain.loss}")
    return replace(done, compiled=gain)


def _replaced(model: nn.Module, example: Example | None) -> Replaced:
    done = Replaced()
    if example is not None:
        from agent.kernels.fusing.fuser import fuse

        done = replace(done, difference=fuse(model, example, done))
    made: dict[nn.Module, nn.Module] = {}
    for path, module in list(model.named_modules(remove_duplicate=False)):
        kind = next((kind for kind in KINDS if isinstance(module, kind)), None)
        if kind is None or isinstance(module, KINDS[kind]):
            continue
        reason = _obstacle(module, kind, path)
        if reason is not None:
            done.kept[path or "the model itself"] = reason
            continue
        if module not in made:
            made[module] = _swapped(module, KINDS[kind])
        holder, _, name = path.rpartition(".")
        setattr(model.get_submodule(holder), name, made[module])
        done.undo.append(_back(model.get_submodule(holder), name, module, made[module]))
        done.swapped[path] = KINDS[kind].__name__
    return done


def _back(holder: nn.Module, name: str, was: nn.Module, made: nn.Module) -> Callable[[], None]:
    """Return a function that puts `was` back, unless `made` has been replaced by then."""

    def undo() -> None:
        if getattr(holder, name, None) is made:
            was.train(made.training)
            setattr(holder, name, was)

    return undo


def _obstacle(module: nn.Module, kind: type[nn.Module], path: str) -> str | None:
    if not path:
        return f"it has no holder to swap it in: use {KINDS[kind].__name__}.from_torch(model)"
    if type(module) is not kind:
        return f"it is a {type(module).__name__}, which may do more than {kind.__name__}"
    if isinstance(module, nn.Softmax) and module.dim is None:
        return "it has no dim"
    wrong = {
        str(value.dtype).removeprefix("torch.")
        for value in module.parameters()
        if value.dtype not in routing.DTYPES
    }
    return f"its parameters are {', '.join(sorted(wrong))}" if wrong else None


def _swapped(module: nn.Module, kind: type[nn.Module]) -> nn.Module:
    made: nn.Module = kind.from_torch(module)  # type: ignore[attr-defined]
    return made
