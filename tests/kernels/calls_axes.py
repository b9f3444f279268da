"""Calls of kernels that go along dimensions, of BatchNorm and of embeddings."""

import torch
import torch.nn.functional as F
from kernels.call import Call, both

from agent.kernels import (
    batch_norm,
    cumsum,
    embedding_layer_norm,
    embedding_rms_norm,
    masked_softmax,
    reduction,
)

_RANDOM = torch.Generator().manual_seed(1)
RUNNING = (torch.linspace(-1, 1, 4, dtype=torch.float64), torch.linspace(0.5, 2, 4, dtype=torch.float64))
NAMED = torch.rand(2, 1, 1, 5, generator=_RANDOM) < 0.7


def _attended(scores: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """0 where nothing takes part, which torch.softmax has NaN for."""
    chosen = scores.masked_fill(out, -torch.inf).softmax(-1)
    return chosen.masked_fill(out.all(-1, keepdim=True), 0.0)


IDS = torch.tensor([[1, 2, 0], [1, 3, 1]])


def _normed(
    embedded: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return F.layer_norm(embedded, (5,), weight, bias, 1e-3), embedded


CALLS = {
    "masked_softmax": Call(
        lambda x: masked_softmax(x, NAMED, scale=0.5, causal=True, start=1),
        lambda x: _attended(0.5 * x, ~NAMED | torch.ones(3, 5, dtype=torch.bool).triu(2)), (2, 4, 3, 5),
    ),
    "masked_softmax with a bias": Call(
        lambda x, bias: masked_softmax(x, bias, scale=-0.5), lambda x, b: torch.softmax(b - 0.5 * x, -1),
        (2, 4, 3, 5), ((4, 1, 5),),
    ),
    "masked_softmax with a bias that windows share": Call(
        lambda x, bias: masked_softmax(x, bias, scale=0.5), lambda x, b: torch.softmax(0.5 * x + b, -1),
        (32, 1, 40, 60), ((40, 60),),
    ),
    "reduction to sums": Call(
        lambda x: reduction(x, "sum", (0, -1)), lambda x: x.sum((0, 2)), (3, 4, 5), expands=True
    ),
    "reduction to means": Call(
        lambda x: reduction(x, "mean", 1, keepdim=True), lambda x: x.mean(1, keepdim=True), (3, 4, 5),
        expands=True,
    ),
    "reduction to norms": Call(
        lambda x: reduction(x, "norm", (0, 2)), lambda x: torch.linalg.vector_norm(x, 2, (0, 2)), (3, 4, 5)
    ),
    "reduction to largest values": Call(
        lambda x: reduction(x.round(), "amax"), lambda x: x.round().amax((0, 1, 2)), (3, 4, 5)
    ),
    "reduction to largest of columns": Call(
        lambda x: reduction(x, "amax", [1], keepdim=True), lambda x: x.amax(1, keepdim=True), (3, 4, 5)
    ),
    "cumsum": Call(lambda x: cumsum(x, -1), lambda x: x.cumsum(-1), (3, 4, 5)),
    "cumsum from the end": Call(
        lambda x: cumsum(x, 1, reverse=True), lambda x: x.flip(1).cumsum(1).flip(1), (3, 4, 5)
    ),
    "batch_norm, residual, silu": Call(
        lambda x, r, w, b: batch_norm(x, *RUNNING, w, b, 1e-3, act="silu", residual=r),
        lambda x, r, w, b: F.silu(F.batch_norm(x, *RUNNING, w, b, eps=1e-3) + r), (2, 4, 3, 3),
        ((2, 4, 3, 3), (4,), (4,)),
    ),
    "batch_norm": Call(
        lambda x, w: batch_norm(x, *RUNNING, w), lambda x, w: F.batch_norm(x, *RUNNING, w), (3, 4), ((4,),)
    ),
    "embedding_layer_norm": Call(
        lambda t, p, w, b: both(embedding_layer_norm(IDS, t, w, b, 1e-3, positions=p, padding_idx=2)),
        lambda t, p, w, b: both(_normed(F.embedding(IDS, t, 2) + p, w, b)), (4, 5), ((3, 5), (5,), (5,)),
    ),
    "embedding_rms_norm, the norm alone": Call(
        lambda t, w: embedding_rms_norm(IDS, t, w, 1e-3)[0],
        lambda t, w: F.rms_norm(F.embedding(IDS, t), (5,), w, 1e-3), (4, 5), ((5,),),
    ),
}  # fmt: skip
