"""Shipped kernels as drop-in replacements: `from agent.kernels import group_norm, GroupNorm`.

Functions take the arguments of torch's functions. Modules have the constructor and the state_dict of torch's
modules. Importing this package imports no other module. The first name taken from it imports torch, and the
first call on a GPU builds the kernel for it. An unsupported call falls back to torch, with a
warning (`routing`). `info()` lists these fallbacks, and the verdicts on each kernel.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.kernels.add_layer_norm.module import AddLayerNorm as AddLayerNorm
    from agent.kernels.add_layer_norm.operator import add_layer_norm as add_layer_norm
    from agent.kernels.add_rms_norm.module import AddRMSNorm as AddRMSNorm
    from agent.kernels.add_rms_norm.operator import add_rms_norm as add_rms_norm
    from agent.kernels.batch_norm.module import BatchNorm1d as BatchNorm1d
    from agent.kernels.batch_norm.module import BatchNorm2d as BatchNorm2d
    from agent.kernels.batch_norm.module import BatchNorm3d as BatchNorm3d
    from agent.kernels.batch_norm.operator import batch_norm as batch_norm
    from agent.kernels.conv_fp32x3.module import Conv1dFP32x3 as Conv1dFP32x3
    from agent.kernels.conv_fp32x3.module import Conv2dFP32x3 as Conv2dFP32x3
    from agent.kernels.conv_fp32x3.module import Conv3dFP32x3 as Conv3dFP32x3
    from agent.kernels.conv_fp32x3.module import ConvTranspose1dFP32x3 as ConvTranspose1dFP32x3
    from agent.kernels.conv_fp32x3.module import ConvTranspose2dFP32x3 as ConvTranspose2dFP32x3
    from agent.kernels.conv_fp32x3.module import ConvTranspose3dFP32x3 as ConvTranspose3dFP32x3
    from agent.kernels.conv_fp32x3.operator import conv_fp32x3 as conv_fp32x3
    from agent.kernels.conv_fp32x3.operator import conv_transpose_fp32x3 as conv_transpose_fp32x3
    from agent.kernels.conv_group_norm_tanh_hardswish_residual_logsumexp.module import (
        ConvGroupNormTanhHardswishResidualLogSumExp as ConvGroupNormTanhHardswishResidualLogSumExp,
    )
    from agent.kernels.conv_group_norm_tanh_hardswish_residual_logsumexp.operator import (
        conv_group_norm_tanh_hardswish_residual_logsumexp as conv_group_norm_tanh_hardswish_residual_logsumexp,  # noqa: E501
    )
    from agent.kernels.cross_entropy.operator import cross_entropy as cross_entropy
    from agent.kernels.cumsum.operator import cumsum as cumsum
    from agent.kernels.embedding_norm.operator import embedding_layer_norm as embedding_layer_norm
    from agent.kernels.embedding_norm.operator import embedding_rms_norm as embedding_rms_norm
    from agent.kernels.gate_product.module import GateProduct as GateProduct
    from agent.kernels.gate_product.operator import gate_product as gate_product
    from agent.kernels.gate_product.operator import gate_product_halves as gate_product_halves
    from agent.kernels.gelu.module import GELU as GELU
    from agent.kernels.gelu.operator import gelu as gelu
    from agent.kernels.group_norm.module import GroupNorm as GroupNorm
    from agent.kernels.group_norm.operator import group_norm as group_norm
    from agent.kernels.info import info as info
    from agent.kernels.instances import InstanceNorm1d as InstanceNorm1d
    from agent.kernels.instances import InstanceNorm2d as InstanceNorm2d
    from agent.kernels.instances import InstanceNorm3d as InstanceNorm3d
    from agent.kernels.instances import instance_norm as instance_norm
    from agent.kernels.layer_norm.module import LayerNorm as LayerNorm
    from agent.kernels.layer_norm.operator import layer_norm as layer_norm
    from agent.kernels.linear_cross_entropy.operator import linear_cross_entropy as linear_cross_entropy
    from agent.kernels.linear_fp32x3.module import LinearFP32x3 as LinearFP32x3
    from agent.kernels.linear_fp32x3.operator import linear_fp32x3 as linear_fp32x3
    from agent.kernels.linear_fp32x3.prepared import PreparedWeight as PreparedWeight
    from agent.kernels.linear_fp32x3.prepared import prepare_weight as prepare_weight
    from agent.kernels.linear_group_norm_min_bias.operator import (
        linear_group_norm_min_bias as linear_group_norm_min_bias,
    )
    from agent.kernels.logsumexp.operator import logsumexp as logsumexp
    from agent.kernels.masked_softmax.operator import masked_softmax as masked_softmax
    from agent.kernels.matmul_fp32x3.operator import matmul_fp32x3 as matmul_fp32x3
    from agent.kernels.matmul_half.operator import matmul_half as matmul_half
    from agent.kernels.reduction.operator import reduction as reduction
    from agent.kernels.replacing import replace_modules as replace_modules
    from agent.kernels.rms_norm.module import RMSNorm as RMSNorm
    from agent.kernels.rms_norm.operator import rms_norm as rms_norm
    from agent.kernels.rotary.operator import rotary as rotary
    from agent.kernels.rotary.operator import rotary_ as rotary_
    from agent.kernels.rotary.operator import rotary_computed as rotary_computed
    from agent.kernels.softmax.module import Softmax as Softmax
    from agent.kernels.softmax.operator import softmax as softmax

_PLACES = {
    "AddLayerNorm": "add_layer_norm.module", "add_layer_norm": "add_layer_norm.operator",
    "AddRMSNorm": "add_rms_norm.module", "add_rms_norm": "add_rms_norm.operator",
    "BatchNorm1d": "batch_norm.module", "BatchNorm2d": "batch_norm.module",
    "BatchNorm3d": "batch_norm.module", "batch_norm": "batch_norm.operator",
    "ConvGroupNormTanhHardswishResidualLogSumExp":
        "conv_group_norm_tanh_hardswish_residual_logsumexp.module",
    "conv_group_norm_tanh_hardswish_residual_logsumexp":
        "conv_group_norm_tanh_hardswish_residual_logsumexp.operator",
    "Conv1dFP32x3": "conv_fp32x3.module", "Conv2dFP32x3": "conv_fp32x3.module",
    "Conv3dFP32x3": "conv_fp32x3.module", "ConvTranspose1dFP32x3": "conv_fp32x3.module",
    "ConvTranspose2dFP32x3": "conv_fp32x3.module", "ConvTranspose3dFP32x3": "conv_fp32x3.module",
    "conv_fp32x3": "conv_fp32x3.operator", "conv_transpose_fp32x3": "conv_fp32x3.operator",
    "cross_entropy": "cross_entropy.operator",
    "cumsum": "cumsum.operator",
    "embedding_layer_norm": "embedding_norm.operator", "embedding_rms_norm": "embedding_norm.operator",
    "GateProduct": "gate_product.module", "gate_product": "gate_product.operator",
    "gate_product_halves": "gate_product.operator",
    "GELU": "gelu.module", "gelu": "gelu.operator",
    "GroupNorm": "group_norm.module", "group_norm": "group_norm.operator",
    "InstanceNorm1d": "instances", "InstanceNorm2d": "instances", "InstanceNorm3d": "instances",
    "instance_norm": "instances",
    "LayerNorm": "layer_norm.module", "layer_norm": "layer_norm.operator",
    "linear_cross_entropy": "linear_cross_entropy.operator",
    "LinearFP32x3": "linear_fp32x3.module", "linear_fp32x3": "linear_fp32x3.operator",
    "PreparedWeight": "linear_fp32x3.prepared", "prepare_weight": "linear_fp32x3.prepared",
    "linear_group_norm_min_bias": "linear_group_norm_min_bias.operator",
    "logsumexp": "logsumexp.operator",
    "masked_softmax": "masked_softmax.operator",
    "matmul_fp32x3": "matmul_fp32x3.operator", "matmul_half": "matmul_half.operator",
    "reduction": "reduction.operator",
    "RMSNorm": "rms_norm.module", "rms_norm": "rms_norm.operator",
    "rotary": "rotary.operator", "rotary_": "rotary.operator", "rotary_computed": "rotary.operator",
    "Softmax": "softmax.module", "softmax": "softmax.operator",
    "info": "info", "replace_modules": "replacing",
}  # fmt: skip
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"agent.kernels has no {name!r}; it has {', '.join(_PLACES)}")
    found = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


class _Package(ModuleType):
    """Module class that keeps `group_norm` the function.

    Importing the subpackage of that name would otherwise replace the function by the subpackage.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _PLACES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
