"""One call of every function of every shipped kernel, and what each field of its arguments has to be."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from agent.kernels import routing
from agent.kernels.conv_fp32x3 import product as convolutions
from agent.kernels.conv_fp32x3.window import Window
from agent.kernels.linear_fp32x3 import product
from agent.kernels.matmul_fp32x3 import product as products

KERNELS = Path(routing.__file__).parent
SHARED = KERNELS / "csrc"
GROUP_NORM = KERNELS / "group_norm/csrc/interface.h"
LINEAR = KERNELS / "linear_fp32x3/csrc/sizes.cuh"
MATMUL = KERNELS / "matmul_fp32x3/csrc/sizes.cuh"
CONVOLUTION = KERNELS / "conv_fp32x3/csrc/sizes.cuh"
CONV = "conv_group_norm_tanh_hardswish_residual_logsumexp"
CONV_INTERFACE = KERNELS / CONV / "csrc/interface.h"
ANY = object()
"""An address of memory that the call keeps to itself."""
Values = dict[str, Any]
Expected = dict[str, Values]
"""By function: what each field has to be."""


@dataclass(frozen=True)
class Case:
    """The calls of one kernel; `structs` says where the arguments of a function are declared."""

    calls: Callable[[], Expected]
    structs: dict[str, tuple[Path, str]]


def _randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype)


def _named(**values: Any) -> Values:
    """With a tensor's address for a tensor."""
    return {
        name: value.data_ptr() if isinstance(value, torch.Tensor) else value for name, value in values.items()
    }


def _operator(kernel: str) -> Any:
    return import_module(f"agent.kernels.{kernel}.operator")


def gelu() -> Expected:
    x, dy = (_randn(3, 5, dtype=torch.float16) for _ in range(2))
    sizes = {"count": 15, "tanh": 1, "dtype": 1}
    (y,) = _operator("gelu")._launch(x, True)
    (dx,) = _operator("gelu")._launch_backward(dy, x, True)
    return {"forward": _named(x=x, y=y, **sizes), "backward": _named(dy=dy, x=x, dx=dx, **sizes)}


def _gate_product() -> Expected:
    """Backward of the halves of one tensor; forward of two, of which one is not contiguous."""
    operator, x, dy = _operator("gate_product"), _randn(4, 6), _randn(4, 3)
    gate, value = x[:, :3], _randn(4, 3)
    (y,) = operator._launch(gate, value, "gelu_tanh", True)
    made, _ = operator._launch_backward(dy, x, None, "gelu", False, [True, False])
    sizes = {"rows": 4, "length": 3, "gate_stride": 6, "dtype": 0}
    forward = _named(gate=gate, value=value, y=y, value_stride=3, act=2, **sizes)
    halves = {"gate": x[:, 3:], "value": x, "dgate": made[:, 3:], "dvalue": made}
    backward = _named(dy=dy, value_stride=6, grad_stride=6, act=1, **halves, **sizes)
    return {"forward": forward, "backward": backward}


def _cross_entropy() -> Expected:
    x, dy, target = _randn(4, 6, dtype=torch.float16), _randn(4), torch.tensor([1, 2, 0, -7])
    settings = {"ignored": -7, "smoothing": 0.25, "z_loss": 0.5}
    sizes = {"rows": 4, "length": 6, "dtype": 1} | settings
    loss, lse = _operator("cross_entropy")._launch(x, target, *settings.values())
    (dx,) = _operator("cross_entropy")._launch_backward(dy, x, target, lse, *settings.values())
    backward = _named(dloss=dy, x=x, target=target, lse=lse, dx=dx, **sizes)
    return {"forward": _named(x=x, target=target, loss=loss, lse=lse, **sizes), "backward": backward}


def _rotary() -> Expected:
    x, cos, sin = _randn(2, 5, 3, 8, dtype=torch.float16), _randn(5, 3), _randn(5, 3)
    (y,) = _operator("rotary")._launch(x, cos, sin, -3, 0, True)
    sizes = {"rows": 30, "inner": 3, "positions": 5, "size": 8, "half": 3, "start": 0}
    flags = {"interleaved": 1, "backwards": 0, "dtype": 1, "param_dtype": 0}
    return {"forward": _named(x=x, table=cos, sin=sin, y=y, **sizes, **flags)}


def _softmax() -> Expected:
    x, dy = (_randn(2, 3, 5, dtype=torch.bfloat16) for _ in range(2))
    sizes = {"outer": 2, "length": 3, "inner": 5, "dtype": 2}
    (y,) = _operator("softmax")._launch(x, 1)
    (dx,) = _operator("softmax")._launch_backward(dy, y, 1)
    return {"forward": _named(x=x, y=y, **sizes), "backward": _named(dy=dy, y=y, dx=dx, **sizes)}


def _masked_softmax() -> Expected:
    """A mask of two batches and one head, whose queries lie apart."""
    x, dy = (_randn(2, 3, 4, 5, dtype=torch.float16) for _ in range(2))
    mask = torch.ones(2, 1, 4, 6, dtype=torch.bool)[..., :5]
    (y,) = _operator("masked_softmax")._launch(x, mask, 0.5, True, 7)
    (dx,) = _operator("masked_softmax")._launch_backward(dy, y, 0.5, True, 7)
    sizes = {"rows": 24, "length": 5, "queries": 4, "scale": 0.5, "causal": 1, "start": 7, "dtype": 1}
    steps = {"heads": 3, "batch_stride": 24, "head_stride": 0, "query_stride": 6, "kind": 1}
    forward = _named(x=x, mask=mask, y=y, **sizes, **steps)
    return {"forward": forward, "backward": _named(dy=dy, y=y, dx=dx, **sizes)}


def _reduction() -> Expected:
    """Over two runs of dimensions."""
    x = _randn(2, 3, 4, 5, 6, dtype=torch.float16)
    y, norms = _operator("reduction")._launch(x, "norm", [1, 3], True)
    dy = torch.ones_like(y)
    (dx,) = _operator("reduction")._launch_backward(dy, x, y, norms, "norm", [1, 3])
    sizes = {"a": 2, "r2": 3, "b": 4, "r1": 5, "c": 6, "kind": 3, "dtype": 1}
    forward = _named(x=x, y=y, beside=norms, workspace=ANY, factor=1.0, **sizes)
    backward = _named(dy=dy, x=x, y=y, beside=norms, dx=dx, **sizes)
    return {"forward": forward, "forward_workspace": forward, "backward": backward}


def _cumsum() -> Expected:
    x = _randn(2, 3, 5, dtype=torch.float16)
    (y,) = _operator("cumsum")._launch(x, 1, True)
    sizes = {"outer": 2, "length": 3, "inner": 5, "reverse": 1, "dtype": 1}
    forward = _named(x=x, y=y, workspace=ANY, **sizes)
    return {"forward": forward, "forward_workspace": forward}


def _batch_norm() -> Expected:
    """Backward, channels-last, without a gradient before the activation."""
    x, residual, dy = (
        _randn(2, 6, 3, 5, dtype=torch.float16).to(memory_format=torch.channels_last) for _ in range(3)
    )
    mean, variance, weight, bias = (_randn(6) for _ in range(4))
    operator = _operator("batch_norm")
    given = (x, residual, mean, variance, weight, bias, 1e-3, "gelu")
    dx, _ = operator._launch_backward(dy, *given, [True, False])
    of = {"mean": mean, "variance": variance, "weight": weight, "bias": bias}
    sizes = {"n": 2, "channels": 6, "spatial": 15, "dtype": 1, "param_dtype": 0, "layout": 1, "act": 2}
    backward = _named(dy=dy, x=x, residual=residual, y=dx, dz=0, eps=1e-3, **of, **sizes)
    return {"forward": backward}


def _linear_cross_entropy() -> Expected:
    """Of what a chunk is."""
    logits, share, target = _randn(4, 6, dtype=torch.float16), torch.ones(()), torch.tensor([1, 2, 0, -7])
    _operator("linear_cross_entropy")._launched(-7, 0.25, 0.5)(logits, target, share, True)
    sizes = {"rows": 4, "length": 6, "ignored": -7, "smoothing": 0.25, "z_loss": 0.5, "gradient": 1}
    return {"forward": _named(logits=logits, target=target, share=share, loss=ANY, dtype=1, **sizes)}


def _logsumexp() -> Expected:
    x, dy = _randn(2, 3, 5, dtype=torch.float16), _randn(2, 5, dtype=torch.float16)
    sizes = {"outer": 2, "length": 3, "inner": 5, "dtype": 1}
    y, exact = _operator("logsumexp")._launch(x, 1)
    (dx,) = _operator("logsumexp")._launch_backward(dy, x, exact, 1)
    backward = _named(dy=dy, x=x, exact=exact, dx=dx, **sizes)
    return {"forward": _named(x=x, y=y, exact=exact, **sizes), "backward": backward}


def _layer_norm() -> Expected:
    x, dy = (_randn(4, 6, dtype=torch.bfloat16) for _ in range(2))
    weight, bias, sizes = _randn(6), _randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    y, mean, rstd = _operator("layer_norm")._launch(x, weight, bias, 1, 1e-3)
    made = _operator("layer_norm")._launch_backward(dy, x, weight, bias, mean, rstd, [True] * 3)
    grads = dict(zip(("dx", "dweight", "dbias"), made, strict=True))
    backward = _named(dy=dy, x=x, weight=weight, mean=mean, rstd=rstd, workspace=ANY, **grads, **sizes)
    forward = _named(x=x, weight=weight, bias=bias, y=y, mean=mean, rstd=rstd, eps=1e-3, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _rms_norm() -> Expected:
    x, dy = (_randn(4, 6, dtype=torch.bfloat16) for _ in range(2))
    weight, sizes = _randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    y, rstd = _operator("rms_norm")._launch(x, weight, 1, 1e-3)
    made = _operator("rms_norm")._launch_backward(dy, x, weight, rstd, [True] * 2)
    grads = {"dx": made[0], "dweight": made[1], "dbias": 0}
    backward = _named(dy=dy, x=x, weight=weight, mean=0, rstd=rstd, workspace=ANY, **grads, **sizes)
    forward = _named(x=x, weight=weight, bias=0, y=y, mean=0, rstd=rstd, eps=1e-3, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _add_layer_norm() -> Expected:
    x, residual, dy, of_sum = (_randn(4, 6, dtype=torch.bfloat16) for _ in range(4))
    weight, bias, sizes = _randn(6), _randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    operator = _operator("add_layer_norm")
    y, added, mean, rstd = operator._launch(x, residual, weight, bias, 1, 1e-3)
    made = operator._launch_backward(dy, of_sum, added, weight, bias, mean, rstd, [True] * 3)
    given = {"added": added, "weight": weight, "mean": mean, "rstd": rstd}
    grads = dict(zip(("dx", "dweight", "dbias"), made, strict=True))
    backward = _named(dy=dy, dadded=of_sum, workspace=ANY, **given, **grads, **sizes)
    forward = _named(x=x, residual=residual, bias=bias, y=y, eps=1e-3, **given, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _add_rms_norm() -> Expected:
    x, residual, dy = (_randn(4, 6, dtype=torch.bfloat16) for _ in range(3))
    weight, sizes = _randn(6), {"rows": 4, "length": 6, "dtype": 2, "param_dtype": 0}
    y, added, rstd = _operator("add_rms_norm")._launch(x, residual, weight, 1, 1e-3)
    made = _operator("add_rms_norm")._launch_backward(dy, None, added, weight, rstd, [True] * 2)
    given = {"added": added, "weight": weight, "mean": 0, "rstd": rstd}
    grads = {"dx": made[0], "dweight": made[1], "dbias": 0}
    backward = _named(dy=dy, dadded=0, workspace=ANY, **given, **grads, **sizes)
    forward = _named(x=x, residual=residual, bias=0, y=y, eps=1e-3, **given, **sizes)
    return {"forward": forward, "backward": backward, "backward_workspace": backward}


def _group_norm() -> Expected:
    x, residual, dy = (_randn(2, 12, 5, 7, dtype=torch.float16) for _ in range(3))
    weight, bias = _randn(12), _randn(12)
    sizes = {"n": 2, "channels": 12, "spatial": 35, "groups": 3, "dtype": 1, "param_dtype": 0, "layout": 0}
    sizes |= {"act": 5, "path": 0}
    operator = _operator("group_norm")
    y, mean, rstd = operator._launch(x, residual, weight, bias, 3, 1e-3, "hardswish")
    given = {"x": x, "residual": residual, "weight": weight, "bias": bias, "mean": mean, "rstd": rstd}
    made = operator._launch_backward(dy, *given.values(), 3, "hardswish", [True] * 4)
    grads = dict(zip(("dx", "dresidual", "dweight", "dbias"), made, strict=True))
    forward = _named(y=y, workspace=ANY, eps=1e-3, **given, **sizes)
    backward = _named(dy=dy, workspace=ANY, **given, **grads, **sizes)
    return {
        "forward": forward, "forward_workspace": forward, "backward": backward,
        "backward_workspace": backward,
    }  # fmt: skip


def _linear() -> Expected:
    x, weight, bias, packed = _randn(4, 6), _randn(5, 6), _randn(5), _randn(9)
    y = product.multiplied(x, weight, bias, packed, "ieee")
    halves = product.split(weight)
    sizes = {"m": 4, "n": 5, "k": 6, "precision": 1}
    forward = _named(x=x, weight=weight, bias=bias, packed=packed, y=y, workspace=ANY, **sizes)
    split = _named(values=weight, packed=halves, rows=5, k=6)
    asked = split | {"packed": 0}
    return {"forward": forward, "forward_workspace": forward, "split": split, "packed_bytes": asked}


def _matmul() -> Expected:
    a, b, c = _randn(2, 6, 4).mT, _randn(6, 5), _randn(4, 1)
    y = products.multiplied(a, b, products.Sum(c, 0.5, 3.0), "fp32x4")
    sizes = {"batch": 2, "m": 4, "n": 5, "k": 6, "precision": 2, "alpha": 0.5, "beta": 3.0}
    of_a = {"a_batch": 24, "a_row": 1, "a_depth": 4}
    of_b = {"b_batch": 0, "b_depth": 5, "b_column": 1}
    of_c = {"c_batch": 0, "c_row": 1, "c_column": 0}
    forward = _named(a=a, b=b, c=c, y=y, workspace=ANY, **sizes, **of_a, **of_b, **of_c)
    return {"forward": forward, "forward_workspace": forward}


def _convolution() -> Expected:
    x, weight, bias = _randn(2, 6, 8, 9), _randn(10, 3, 3, 2), _randn(10)
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
    forward = _named(x=x, weight=weight, bias=bias, y=y, workspace=ANY, step_plane=52, **sizes, **each)
    return {"forward": forward, "forward_workspace": forward}


def _least() -> Expected:
    x, weight, bias, packed = _randn(4, 6), _randn(10, 6), _randn(1, 3, 1, 1), _randn(9)
    of = {name: _randn(10) for name in ("linear_bias", "gamma", "beta")}
    launched = _operator("linear_group_norm_min_bias")._launch
    (out,) = launched(x, weight, *of.values(), bias, packed, 2, 1e-3, "ieee")
    sizes = {"m": 4, "n": 10, "k": 6, "groups": 2, "count": 3, "precision": 1, "eps": 1e-3}
    forward = _named(x=x, weight=weight, bias=bias, packed=packed, out=out, workspace=ANY, **of, **sizes)
    return {"forward": forward, "forward_workspace": forward}


def _conv() -> Expected:
    x, weight = _randn(2, 3, 6, 9), _randn(8, 3, 3, 3)
    of = {name: _randn(8) for name in ("bias", "gamma", "beta")}
    (y,) = _operator(CONV)._launch(x, weight, *of.values(), 4, 1e-3)
    sizes = {"n": 2, "in_channels": 3, "channels": 8, "height": 6, "width": 9, "groups": 4, "path": 0}
    forward = _named(x=x, weight=weight, y=y, workspace=ANY, eps=1e-3, **of, **sizes)
    return {"forward": forward, "forward_workspace": forward}


def _both(source: Path, forward: str = "Forward", backward: str = "Backward") -> dict[str, tuple[Path, str]]:
    return {"Forward": (source, forward), "Backward": (source, backward), "Split": (source, "Split")}


def _launch(kernel: str) -> Path:
    return KERNELS / kernel / "csrc/launch.cuh"


ROWS = _both(SHARED / "row_norm.cuh", "RowForward", "RowBackward")
ADD_ROWS = _both(SHARED / "add_norm.cuh", "AddRowForward", "AddRowBackward")
CASES = {
    "add_layer_norm": Case(_add_layer_norm, ADD_ROWS),
    "add_rms_norm": Case(_add_rms_norm, ADD_ROWS),
    "cross_entropy": Case(_cross_entropy, _both(_launch("cross_entropy"))),
    "gate_product": Case(_gate_product, _both(_launch("gate_product"))),
    "gelu": Case(gelu, _both(_launch("gelu"))),
    "rotary": Case(_rotary, _both(_launch("rotary"))),
    "softmax": Case(_softmax, _both(_launch("softmax"))),
    "masked_softmax": Case(_masked_softmax, _both(_launch("masked_softmax"))),
    "reduction": Case(_reduction, _both(_launch("reduction"))),
    "cumsum": Case(_cumsum, _both(_launch("cumsum"))),
    "batch_norm": Case(_batch_norm, _both(_launch("batch_norm"))),
    "linear_cross_entropy": Case(_linear_cross_entropy, _both(_launch("linear_cross_entropy"))),
    "logsumexp": Case(_logsumexp, _both(_launch("logsumexp"))),
    "layer_norm": Case(_layer_norm, ROWS),
    "rms_norm": Case(_rms_norm, ROWS),
    "group_norm": Case(_group_norm, _both(GROUP_NORM)),
    "linear_fp32x3": Case(_linear, _both(LINEAR)),
    "matmul_fp32x3": Case(_matmul, _both(MATMUL)),
    "conv_fp32x3": Case(_convolution, _both(CONVOLUTION)),
    "linear_group_norm_min_bias": Case(_least, _both(_launch("linear_group_norm_min_bias"))),
    CONV: Case(_conv, _both(CONV_INTERFACE)),
}
