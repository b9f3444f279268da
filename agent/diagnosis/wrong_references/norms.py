"""Layer, group, instance, batch and RMS norm in one common form."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from agent.diagnosis.graph import Arguments, Rewrite
from agent.diagnosis.wrong_references.rules import Site

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]
ROOTS = r"sqrt|eps|1e-"
STATISTICS = r"mean|sum|/ ?\(?(?:float|n|count)"


class Norm(NamedTuple):
    """Normalisation of an operator: x is reshaped to `view`, with statistics over `axes`."""

    view: tuple[int, ...]
    axes: tuple[int, ...]
    affine: tuple[int, ...]
    """Shape in which weight and bias broadcast against x."""
    eps: float
    centred: bool = True
    groups: int = 1
    channels: int = 1

    def statistics(self, x: Tensor) -> Pair:
        v = x.reshape(self.view)
        mean = v.mean(self.axes, keepdim=True) if self.centred else v.new_zeros(())
        return mean, (v - mean).square().mean(self.axes, keepdim=True)

    def apply(self, x: Tensor, mean: Tensor, factor: Tensor) -> Tensor:
        return ((x.reshape(self.view) - mean) * factor).reshape(x.shape)

    def affined(self, y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        y = y * weight.reshape(self.affine) if weight is not None else y
        return y + bias.reshape(self.affine) if bias is not None else y


def _layer(given: Arguments) -> Norm:
    x, shape = given["input"], tuple(given["normalized_shape"])
    axes = tuple(range(x.dim() - len(shape), x.dim()))
    return Norm(tuple(x.shape), axes, shape, given["eps"])


def _rms(given: Arguments) -> Norm:
    eps = given["eps"] if given["eps"] is not None else torch.finfo(given["input"].dtype).eps
    return _layer(given | {"eps": eps})._replace(centred=False)


def _group(given: Arguments) -> Norm:
    x, channels, groups = given["input"], given["C"], given["group"]
    view = (x.shape[0], groups, channels // groups, *x.shape[2:])
    affine = (1, channels, *[1] * (x.dim() - 2))
    return Norm(view, tuple(range(2, len(view))), affine, given["eps"], True, groups, channels)


def _batch(given: Arguments) -> Norm:
    x = given["input"]
    axes = tuple(axis for axis in range(x.dim()) if axis != 1)
    affine = (1, x.shape[1], *[1] * (x.dim() - 2))
    return Norm(tuple(x.shape), axes, affine, given["eps"], channels=x.shape[1])


def norm_of(site: Site) -> Norm:
    """Return the call's normalisation.

    torch runs an instance norm as a batch norm of one sample. For an instance norm, the axes are those of the
    original input.
    """
    norm = SHAPES[site.call.name](site.given)
    maker = site.tape.maker(site.given["input"])
    if site.given.get("training") and norm.view[0] == 1 and maker is not None and maker.is_view:
        before = tuple(maker.given["self"].shape)
        if len(before) == len(norm.view) and before[2:] == norm.view[2:]:
            return norm._replace(view=before, axes=tuple(range(2, len(before))), channels=before[1])
    return norm


SHAPES: dict[str, Callable[[Arguments], Norm]] = {
    "native_layer_norm": _layer,
    "_fused_rms_norm": _rms,
    "native_group_norm": _group,
    "native_batch_norm": _batch,
    "cudnn_batch_norm": _batch,
    "_native_batch_norm_legit_no_training": _batch,
    "_native_batch_norm_legit": _batch,
}


def own_statistics(norm: Norm, running: bool, given: Arguments) -> Pair:
    """Return mean and variance, from the buffers if `running`, else from the input."""
    if running:
        return given["running_mean"].reshape(norm.affine), given["running_var"].reshape(norm.affine)
    return norm.statistics(given["input"])


def with_factor(site: Site, norm: Norm, running: bool, change: Callable[[Tensor, Tensor], Pair]) -> Rewrite:
    """Return a rewrite in which `change` turns (mean, variance) into the subtrahend and the factor."""

    def run(given: Arguments) -> Tensor:
        mean, factor = change(*own_statistics(norm, running, given))
        return norm.affined(norm.apply(given["input"], mean, factor), given.get("weight"), given.get("bias"))

    return site.first(run)


def is_running(site: Site) -> bool:
    """Return True if the operator takes its statistics from buffers."""
    return site.given.get("running_mean") is not None and not site.given.get("training", False)
