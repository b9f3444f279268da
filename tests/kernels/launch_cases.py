"""One call of every function of every shipped kernel, and what each field of its arguments has to be."""

import pytest
import torch
from kernels import launch_axes
from kernels.launch_parts import ANY as ANY
from kernels.launch_parts import KERNELS as KERNELS
from kernels.launch_parts import Case, Expected, both, launch, named, operator_of, randn
from kernels.launch_parts import Values as Values

from agent.kernels import routing
from agent.kernels.conv_fp32x3 import product as convolutions
from agent.kernels.conv_fp32x3.window import Window
from agent.kernels.linear_fp32x3 import product
from agent.kernels.matmul_fp32x3 import product as products

SHARED = KERNELS / "csrc"
GROUP_NORM = KERNELS / "group_norm/csrc/interface.h"
LINEAR = KERNELS / "linear_fp32x3/csrc/sizes.cuh"
MATMUL = KERNELS / "matmul_fp32x3/csrc/sizes.cuh"
HALF = KERNELS / "matmul_half/csrc/sizes.cuh"
CONVOLUTION = KERNELS / "conv_fp32x3/csrc/sizes.cuh"
CONV = "conv_group_norm_tanh_hardswish_residual_logsumexp"
CONV_INTERFACE = KERNELS / CONV / "csrc/interface.h"


def gelu() -> Expected:
    x, dy = (randn(3, 5, dtype=torch.float16) for _ in range(2))
    sizes = {"count": 15, "tanh": 1, "dtype": 1}
    (y,) = operator_of("gelu")._launch(x, True)
    (dx,) = operator_of("gelu")._launch_backward(dy, x, True)
    return {"forward": named(x=x, y=y, **sizes), "backward": named(dy=dy, x=x, dx=dx, **sizes)}


def _gate_product() -> Expected:
    """Backward of the halves of one tensor; forward of two, of which one is not contiguous."""
    operator, x, dy = operator_of("gate_product"), randn(4, 6), randn(4, 3)
    gate, value = x[:, :3], randn(4, 3)
    (y,) = operator._launch(gate, value, "gelu_tanh", True)
    made, _ = operator._launch_backward(dy, x, None, "gelu", False, [True, False])
    sizes = {"rows": 4, "length": 3, "gate_stride": 6, "dtype": 0}
    forward = named(gate=gate, value=value, y=y, value_stride=3, act=2, **sizes)
    halves = {"gate": x[:, 3:], "value": x, "dgate": made[:, 3:], "dvalue": made}
    backward = named(dy=dy, value_stride=6, grad_stride=6, act=1, **halves, **sizes)
    return {"forward": forward, "backward": backward}


def _cross_entropy() -> Expected:
    """Losses in the dtype of the logits; their gradient in float32."""
    x, dy, target = randn(4, 6, dtype=torch.float16), randn(4), torch.tensor([1, 2, 0, -7])
    settings = {"ignored": -7, "smoothing": 0.25, "z_loss": 0.5}
    sizes = {"rows": 4, "length": 6, "dtype": 1} | settings
    loss, lse = operator_of("cross_entropy")._launch(x, target, *settings.values(), True)
    (dx,) = operator_of("cross_entropy")._launch_backward(dy, x, target, lse, *settings.values())
    forward = named(x=x, target=target, loss=loss, lse=lse, narrow=1, **sizes)
    backward = named(dloss=dy, x=x, target=target, lse=lse, dx=dx, narrow=0, **sizes)
    return {"forward": forward, "backward": backward}


def _rotary() -> Expected:
    x, cos, sin = randn(2, 5, 4, 3, 8, dtype=torch.float16)[:, :, 1], randn(5, 3), randn(5, 3)
    (y,) = operator_of("rotary")._launch(x, cos, sin, -3, 0, True)
    sizes = {"rows": 30, "inner": 3, "positions": 5, "size": 8, "half": 3, "start": 0}
    flags = {"interleaved": 1, "backwards": 0, "dtype": 1, "param_dtype": 0}
    gaps = {"second": 2, "by_first": 0, "by_second": 480, "by_position": 96, "by_inner": 8}
    return {"forward": named(x=x, table=cos, sin=sin, y=y, **sizes, **flags, **gaps)}


def _softmax() -> Expected:
    x, dy = (randn(2, 3, 5, dtype=torch.bfloat16) for _ in range(2))
    sizes = {"outer": 2, "length": 3, "inner": 5, "dtype": 2}
    (y,) = operator_of("softmax")._launch(x, 1)
    (dx,) = operator_of("softmax")._launch_backward(dy, y, 1)
    return {"forward": named(x=x, y=y, **sizes), "backward": named(dy=dy, y=y, dx=dx, **sizes)}


def _logsumexp() -> Expected:
    x, dy = randn(2, 3, 5, dtype=torch.float16), randn(2, 5, dtype=torch.float16)
    sizes = {"outer": 2, "length": 3, "inner": 5, "dtype": 1}
    y, exact = operator_of("logsumexp")._launch(x, 1)
    (dx,) = operator_of("logsumexp")._launch_backward(dy, x, exact, 1)
    backward = named(dy=dy, x=x, exact=exact, dx=dx, **sizes)
    return {"forward": named(x=x, y=y, exact=exact, **sizes), "backward": backward}


def _layer_norm() -> Expected:
    x, dy = (randn(4, 6, dtype=torch.bfloat16) for _ in range(2))
    weight, bias, sizes = randn(6), randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    y, mean, rstd = operator_of("layer_norm")._launch(x, weight, bias, 1, 1e-3)
    made = operator_of("layer_norm")._launch_backward(dy, x, weight, bias, mean, rstd, [True] * 3)
    grads = dict(zip(("dx", "dweight", "dbias"), made, strict=True))
    backward = named(dy=dy, x=x, weight=weight, mean=mean, rstd=rstd, workspace=ANY, **grads, **sizes)
    forward = named(x=x, weight=weight, bias=bias, y=y, mean=mean, rstd=rstd, eps=1e-3, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _rms_norm() -> Expected:
    x, dy = (randn(4, 6, dtype=torch.bfloat16) for _ in range(2))
    weight, sizes = randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    y, rstd = operator_of("rms_norm")._launch(x, weight, 1, 1e-3)
    made = operator_of("rms_norm")._launch_backward(dy, x, weight, rstd, [True] * 2)
    grads = {"dx": made[0], "dweight": made[1], "dbias": 0}
    backward = named(dy=dy, x=x, weight=weight, mean=0, rstd=rstd, workspace=ANY, **grads, **sizes)
    forward = named(x=x, weight=weight, bias=0, y=y, mean=0, rstd=rstd, eps=1e-3, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _add_layer_norm() -> Expected:
    x, residual, dy, of_sum = (randn(4, 6, dtype=torch.bfloat16) for _ in range(4))
    weight, bias, sizes = randn(6), randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    operator = operator_of("add_layer_norm")
    y, added, mean, rstd = operator._launch(x, residual, weight, bias, 1, 1e-3)
    made = operator._launch_backward(dy, of_sum, added, weight, bias, mean, rstd, [True] * 3)
    given = {"added": added, "weight": weight, "mean": mean, "rstd": rstd}
    grads = dict(zip(("dx", "dweight", "dbias"), made, strict=True))
    backward = named(dy=dy, dadded=of_sum, workspace=ANY, **given, **grads, **sizes)
    forward = named(x=x, residual=residual, bias=bias, y=y, eps=1e-3, **given, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _add_rms_norm() -> Expected:
    x, residual, dy = (randn(4, 6, dtype=torch.bfloat16) for _ in range(3))
    weight, sizes = randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    y, added, rstd = operator_of("add_rms_norm")._launch(x, residual, weight, 1, 1e-3)
    made = operator_of("add_rms_norm")._launch_backward(dy, None, added, weight, rstd, [True] * 2)
    given = {"added": added, "weight": weight, "mean": 0, "rstd": rstd}
    grads = {"dx": made[0], "dweight": made[1], "dbias": 0}
    backward = named(dy=dy, dadded=0, workspace=ANY, **given, **grads, **sizes)
    forward = named(x=x, residual=residual, bias=0, y=y, eps=1e-3, **given, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _group_norm() -> Expected:
    x, residual, dy = (randn(2, 12, 5, 7, dtype=torch.float16) for _ in range(3))
    weight, bias = randn(12), randn(12)
    sizes = {"n": 2, "channels": 12, "spatial": 35, "groups": 3, "dtype": 1, "param_dtype": 0, "layout": 0}
    sizes |= {"act": 5, "path": 0}
    operator = operator_of("group_norm")
    y, mean, rstd = operator._launch(x, residual, weight, bias, 3, 1e-3, "hardswish")
    given = {"x": x, "residual": residual, "weight": weight, "bias": bias, "mean": mean, "rstd": rstd}
    made = operator._launch_backward(dy, *given.values(), 3, "hardswish", [True] * 4)
    grads = dict(zip(("dx", "dresidual", "dweight", "dbias"), made, strict=True))
    forward = named(y=y, workspace=ANY, eps=1e-3, **given, **sizes)
    backward = named(dy=dy, workspace=ANY, **given, **grads, **sizes)
    return {
        "forward": forward, "forward_workspace": forward, "backward": backward,
        "backward_workspace": backward,
    }  # fmt: skip


def _linear() -> Expected:
    x, weight, bias, packed = randn(4, 6), randn(5, 6), randn(5), randn(9)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(routing, "is_always", lambda: True)
        y = product.multiplied(x, weight, bias, packed, "ieee")
    halves = product.split(weight)
    sizes = {"m": 4, "n": 5, "k": 6, "precision": 1}
    forward = named(x=x, weight=weight, bias=bias, packed=packed, y=y, workspace=ANY, **sizes)
    split = named(values=weight, packed=halves, rows=5, k=6)
    asked = split | {"packed": 0}
    return {"forward": forward, "forward_workspace": forward, "split": split, "packed_bytes": asked}


def _matmul() -> Expected:
    a, b, c = randn(2, 6, 4).mT, randn(6, 5), randn(4, 1)
    y = products.multiplied(a, b, products.Sum(c, 0.5, 3.0), "fp32x4")
    sizes = {"batch": 2, "m": 4, "n": 5, "k": 6, "precision": 2, "alpha": 0.5, "beta": 3.0}
    sizes |= {"a_part": 0, "b_part": 0, "y_part": 0}
    of_a = {"a_batch": 24, "a_row": 1, "a_depth": 4}
    of_b = {"b_batch": 0, "b_depth": 5, "b_column": 1}
    of_c = {"c_batch": 0, "c_row": 1, "c_column": 0}
    forward = named(a=a, b=b, c=c, y=y, workspace=ANY, **sizes, **of_a, **of_b, **of_c)
    return {"forward": forward, "forward_workspace": forward}


def _half() -> Expected:
    operator = operator_of("matmul_half")
    given, b, c = randn(2, 6, 4).bfloat16().mT, randn(6, 5).bfloat16(), randn(4, 1).bfloat16()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(operator.routing, "is_always", lambda: True)
        patched.setattr(operator, "_has_tensor_cores", lambda device: True)
        (y,) = operator._launch(given, b, c, 0.5, 3.0)
    sizes = {"batch": 2, "m": 4, "n": 5, "k": 6, "dtype": 2, "alpha": 0.5, "beta": 3.0}
    of_a = {"a_batch": 24, "a_row": 1, "a_depth": 4}
    of_b = {"b_batch": 0, "b_depth": 5, "b_column": 1}
    of_c = {"c_batch": 0, "c_row": 1, "c_column": 0}
    a = given.contiguous()
    wide = operator._copied(a, 4, 8)
    sizes_of_rows = {"from_rows": 8, "from_length": 6, "rows": 8, "length": 8}
    copied = {"from": a.data_ptr(), "to": wide.data_ptr()} | sizes_of_rows
    return {"forward": named(a=given, b=b, c=c, y=y, **sizes, **of_a, **of_b, **of_c), "copy_rows": copied}


def _convolution() -> Expected:
    x, weight, bias = randn(2, 6, 8, 9), randn(10, 3, 3, 2), randn(10)
    window = Window((2, 1), (1, 3), (1, 2), groups=2)
    y = convolutions.convolved(x, weight, bias, window, "ieee")
    sizes = {"images": 2, "groups": 2, "channels": 3, "features": 5, "precision": 1}
    spaces = {
        "in": (1, 8, 9), "out": (1, 4, 13), "step": (1, 13, 1), "size": (1, 3, 2), "stride": (1, 2, 1),
        "padding": (0, 1, 3), "dilation": (1, 1, 2),
    }  # fmt: skip
    each = {
        f"{name}_{way}": value for name, of in spaces.items() for way, value in zip("dhw", of, strict=True)
    }
    forward = named(x=x, weight=weight, bias=bias, y=y, workspace=ANY, step_plane=52, **sizes, **each)
    return {"forward": forward, "forward_workspace": forward}


def _least() -> Expected:
    x, weight, bias, packed = randn(4, 6), randn(10, 6), randn(1, 3, 1, 1), randn(9)
    of = {name: randn(10) for name in ("linear_bias", "gamma", "beta")}
    launched = operator_of("linear_group_norm_min_bias")._launch
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(routing, "is_always", lambda: True)
        (out,) = launched(x, weight, *of.values(), bias, packed, 2, 1e-3, "ieee")
    sizes = {"m": 4, "n": 10, "k": 6, "groups": 2, "count": 3, "precision": 1, "eps": 1e-3}
    given = {"x": x, "weight": weight, "bias": bias, "packed": packed, "activation": 0}
    forward = named(out=out, workspace=ANY, **given, **of, **sizes)
    return {"forward": forward, "forward_workspace": forward}


def _conv() -> Expected:
    x, weight = randn(2, 3, 6, 9), randn(8, 3, 3, 3)
    of = {name: randn(8) for name in ("bias", "gamma", "beta")}
    (y,) = operator_of(CONV)._launch(x, weight, *of.values(), 4, 1e-3)
    sizes = {"n": 2, "in_channels": 3, "channels": 8, "height": 6, "width": 9, "groups": 4, "path": 0}
    forward = named(x=x, weight=weight, y=y, workspace=ANY, eps=1e-3, **of, **sizes)
    dy = randn(2, 1, 4, 7)
    # What follows the launcher takes what it left: here dc and its sums as they were found.
    operator_of(CONV)._launch_backward(dy, x, weight, *of.values(), y, 4, 1e-3, [True] * 5)
    del sizes["path"]
    backward = named(dy=dy, x=x, weight=weight, y=y, dc=ANY, sums=ANY, workspace=ANY, eps=1e-3, **of, **sizes)
    return {
        "forward": forward, "forward_workspace": forward, "backward": backward, "backward_workspace": backward
    }  # fmt: skip


ROWS = both(SHARED / "row_norm.cuh", "RowForward", "RowBackward")
ADD_ROWS = both(SHARED / "add_norm.cuh", "AddRowForward", "AddRowBackward")
CASES = {
    **launch_axes.CASES,
    "add_layer_norm": Case(_add_layer_norm, ADD_ROWS),
    "add_rms_norm": Case(_add_rms_norm, ADD_ROWS),
    "cross_entropy": Case(_cross_entropy, both(launch("cross_entropy"))),
    "gate_product": Case(_gate_product, both(launch("gate_product"))),
    "gelu": Case(gelu, both(launch("gelu"))),
    "rotary": Case(_rotary, both(launch("rotary"))),
    "softmax": Case(
        _softmax,
        {
            way: (KERNELS / "softmax/csrc" / file, way)
            for way, file in (("Forward", "call.cuh"), ("Backward", "backward.cuh"))
        },
    ),
    "logsumexp": Case(_logsumexp, both(KERNELS / "logsumexp/csrc/call.cuh")),
    "layer_norm": Case(_layer_norm, ROWS),
    "rms_norm": Case(_rms_norm, ROWS),
    "group_norm": Case(_group_norm, both(GROUP_NORM)),
    "linear_fp32x3": Case(_linear, both(LINEAR)),
    "matmul_fp32x3": Case(_matmul, both(MATMUL)),
    "matmul_half": Case(_half, {**both(HALF), "Rows": (HALF, "Rows")}),
    "conv_fp32x3": Case(_convolution, both(CONVOLUTION)),
    "linear_group_norm_min_bias": Case(_least, both(launch("linear_group_norm_min_bias"))),
    CONV: Case(_conv, both(CONV_INTERFACE)),
}
