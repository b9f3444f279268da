"""Puts the shipped kernels in the place of torch's modules, and says what stayed and why."""

from dataclasses import dataclass, field

from torch import nn

from agent.kernels import routing
from agent.kernels.gelu.module import GELU
from agent.kernels.group_norm.module import GroupNorm
from agent.kernels.layer_norm.module import LayerNorm
from agent.kernels.rms_norm.module import RMSNorm
from agent.kernels.softmax.module import Softmax

KINDS: dict[type[nn.Module], type[nn.Module]] = {
    nn.GELU: GELU,
    nn.GroupNorm: GroupNorm,
    nn.LayerNorm: LayerNorm,
    nn.RMSNorm: RMSNorm,
    nn.Softmax: Softmax,
}


@dataclass(frozen=True)
class Replaced:
    """What `replace_modules` did, by the modules' names in the model."""

    swapped: dict[str, str] = field(default_factory=dict)
    """`encoder.0.norm` -> `GroupNorm`."""
    kept: dict[str, str] = field(default_factory=dict)
    """Modules of a kind that has a kernel, and why they stayed."""

    def __str__(self) -> str:
        lines = [f"{name}: {kind}" for name, kind in self.swapped.items()]
        lines += [f"{name}: stays, {reason}" for name, reason in self.kept.items()]
        return "\n".join(lines) or "no module has a shipped kernel"


def replace_modules(model: nn.Module) -> Replaced:
    """Swaps, in place, every submodule that a shipped kernel replaces; its parameters and hooks are kept.

    A module that stands in several places becomes one module in the same places. The model itself stays what
    it is.
    """
    done = Replaced()
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
        done.swapped[path] = KINDS[kind].__name__
    return done


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
