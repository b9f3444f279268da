"""The launches of kernels that go along dimensions, of BatchNorm, embeddings and losses of linear layers."""

import torch
from kernels.launch_parts import ANY, KERNELS, Case, Expected, both, launch, named, operator_of, randn


def _masked_softmax() -> Expected:
    """A mask of two batches and one head, whose queries lie apart."""
    x, dy = (randn(2, 3, 4, 5, dtype=torch.float16) for _ in range(2))
    mask = torch.ones(2, 1, 4, 6, dtype=torch.bool)[..., :5]
    (y,) = operator_of("masked_softmax")._launch(x, mask, 0.5, True, 7)
    dx, dmask = operator_of("masked_softmax")._launch_backward(dy, y, 0.5, True, 7, 2)
    sizes = {"rows": 24, "length": 5, "queries": 4, "scale": 0.5, "causal": 1, "start": 7, "dtype": 1}
    steps = {"heads": 3, "batch_stride": 24, "head_stride": 0, "query_stride": 6, "kind": 1}
    forward = named(x=x, mask=mask, y=y, **sizes, **steps)
    return {"forward": forward, "backward": named(dy=dy, y=y, dx=dx, dmask=dmask, parts=2, **sizes)}


def _reduction() -> Expected:
    """Over two runs of dimensions."""
    x = randn(2, 3, 4, 5, 6, dtype=torch.float16)
    y, norms = operator_of("reduction")._launch(x, "norm", [1, 3], True)
    dy = torch.ones_like(y)
    (dx,) = operator_of("reduction")._launch_backward(dy, x, y, norms, "norm", [1, 3])
    sizes = {"a": 2, "r2": 3, "b": 4, "r1": 5, "c": 6, "kind": 3, "dtype": 1}
    forward = named(x=x, y=y, beside=norms, workspace=ANY, factor=1.0, **sizes)
    backward = named(dy=dy, x=x, y=y, beside=norms, dx=dx, **sizes)
    return {"forward": forward, "forward_workspace": forward, "backward": backward}


def _cumsum() -> Expected:
    x = randn(2, 3, 5, dtype=torch.float16)
    (y,) = operator_of("cumsum")._launch(x, 1, True)
    sizes = {"outer": 2, "length": 3, "inner": 5, "reverse": 1, "dtype": 1}
    forward = named(x=x, y=y, workspace=ANY, **sizes)
    return {"forward": forward, "forward_workspace": forward}


def _batch_norm() -> Expected:
    """Backward, channels-last, without a gradient before the activation; with the weight's and without."""
    x, residual, dy = (
        randn(2, 6, 3, 5, dtype=torch.float16).to(memory_format=torch.channels_last) for _ in range(3)
    )
    mean, variance, weight, bias = (randn(6) for _ in range(4))
    operator = operator_of("batch_norm")
    given = (x, residual, mean, variance, weight, bias, 1e-3, "gelu")
    dx, *_ = operator._launch_backward(dy, *given, [True, False, False, False])
    of = {"mean": mean, "variance": variance, "weight": weight, "bias": bias}
    sizes = {"n": 2, "channels": 6, "spatial": 15, "dtype": 1, "param_dtype": 0, "layout": 1, "act": 2}
    frozen = named(dy=dy, x=x, residual=residual, y=dx, dz=0, eps=1e-3, **of, **sizes)
    dx, _, dweight, _ = operator._launch_backward(dy, *given, [True, False, True, False])
    made = {"dx": dx, "dz": 0, "dweight": dweight, "dbias": 0}
    backward = named(dy=dy, x=x, residual=residual, eps=1e-3, workspace=ANY, **made, **of, **sizes)
    return {"forward": frozen, "backward": backward, "backward_workspace": backward}


def _linear_cross_entropy() -> Expected:
    """Of what a chunk is."""
    logits, share, target = randn(4, 6, dtype=torch.float16), torch.ones(()), torch.tensor([1, 2, 0, -7])
    operator_of("linear_cross_entropy")._launched(-7, 0.25, 0.5)(logits, target, share, True)
    sizes = {"rows": 4, "length": 6, "ignored": -7, "smoothing": 0.25, "z_loss": 0.5, "gradient": 1}
    return {"forward": named(logits=logits, target=target, share=share, loss=ANY, dtype=1, **sizes)}


def _embedding_norm() -> Expected:
    table, positions = randn(7, 6, dtype=torch.float16), randn(3, 6, dtype=torch.float16)
    ids, weight, bias = torch.tensor([[1, 6, 0], [2, 2, 3]]), randn(6), randn(6)
    launched = operator_of("embedding_norm")._launch
    y, embedded, mean, rstd = launched(table, ids, positions, weight, bias, True, 1e-3, -1)
    sizes = {"rows": 6, "length": 6, "entries": 7, "count": 3, "centred": 1, "dtype": 1, "param_dtype": 0}
    made = {"y": y, "embedded": embedded, "mean": mean, "rstd": rstd, "eps": 1e-3}
    given = {"ids": ids, "table": table, "positions": positions, "weight": weight, "bias": bias}
    dx = randn(2, 3, 6, dtype=torch.float16)
    dtable = operator_of("embedding_norm")._launch_table(dx, ids, 7, 2)
    of = {"rows": 6, "length": 6, "entries": 7, "padding": 2, "dtype": 1}
    table_backward = named(dx=dx, unsorted=ids, ids=0, order=0, dtable=dtable, **of)
    return {"forward": named(**given, **made, **sizes), "table_backward": table_backward}


CASES = {
    "masked_softmax": Case(_masked_softmax, both(launch("masked_softmax"))),
    "reduction": Case(
        _reduction,
        {
            "Forward": (KERNELS / "reduction/csrc/launch.cuh", "Forward"),
            "Backward": (KERNELS / "reduction/csrc/backward.cuh", "Backward"),
        },
    ),
    "cumsum": Case(_cumsum, both(launch("cumsum"))),
    "batch_norm": Case(
        _batch_norm,
        {
            "Forward": (KERNELS / "batch_norm/csrc/map.cuh", "Forward"),
            "Backward": (KERNELS / "batch_norm/csrc/backward.cuh", "Backward"),
        },
    ),
    "linear_cross_entropy": Case(_linear_cross_entropy, both(launch("linear_cross_entropy"))),
    "embedding_norm": Case(
        _embedding_norm,
        {
            "Forward": (KERNELS / "embedding_norm/csrc/launch.cuh", "Forward"),
            "TableBackward": (KERNELS / "embedding_norm/csrc/table.cuh", "TableBackward"),
        },
    ),
}
