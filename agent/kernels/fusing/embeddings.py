"""Patterns and fused calls for an embedding and its norm, with or without added positions."""

import torch
from torch import fx, nn

from agent.kernels import routing
from agent.kernels.embedding_norm.operator import embedding_layer_norm, embedding_rms_norm
from agent.kernels.fusing.found import Found, addends, both_ways, module_call, norm_call
from agent.kernels.layer_norm.module import LayerNorm
from agent.kernels.rms_norm.module import RMSNorm

KINDS = (nn.LayerNorm, LayerNorm, nn.RMSNorm, RMSNorm)


def embedding(node: fx.Node, module: nn.Module) -> Found | None:
    """Find an embedding and its norm. Other nodes may use the embedding's result, too."""
    normed = norm_call(node, module, KINDS)
    ids = None if normed is None else _ids(normed[0], module)
    if normed is None or ids is None:
        return None
    return Found((normed[0], node), (normed[0], node), (ids,), (str(normed[0].target), normed[1]))


def embedding_and_positions(node: fx.Node, module: nn.Module) -> Found | None:
    """Find an embedding, a sum with it, and the norm of the sum."""
    normed = norm_call(node, module, KINDS)
    if normed is None:
        return None
    total, norm = normed
    for table, positions in both_ways(addends(total)):
        ids = _ids(table, module)
        if ids is not None and table is not positions:
            modules = (str(table.target), norm)
            return Found((table, total, node), (total, node), (ids, positions), modules)
    return None


def _ids(node: fx.Node, module: nn.Module) -> fx.Node | None:
    ids = module_call(node, module, (nn.Embedding,))
    if ids is None:
        return None
    table = module.get_submodule(str(node.target))
    assert isinstance(table, nn.Embedding)
    is_plain = table.max_norm is None and not table.sparse and not table.scale_grad_by_freq
    return ids if is_plain and table.weight.dtype in routing.DTYPES else None


def embedded_norm(
    ids: torch.Tensor, table: nn.Embedding, norm: nn.LayerNorm | nn.RMSNorm
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the embedding, then its norm."""
    return _call(ids, None, table, norm)


def placed_norm(
    ids: torch.Tensor, positions: torch.Tensor, table: nn.Embedding, norm: nn.LayerNorm | nn.RMSNorm
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sum of embedding and positions, then its norm."""
    if refuses_positions(ids, positions) is not None:
        total = table(ids) + positions
        return total, norm(total)
    return _call(ids, positions.reshape(positions.shape[-2:]), table, norm)


def refuses_positions(ids: torch.Tensor, positions: torch.Tensor) -> str | None:
    """Return why the kernel does not support these positions, or None if it does.

    The kernel takes one row of positions for each place in a sequence, shared by the whole batch.
    """
    leading = positions.shape[:-2]
    if ids.dim() < 2 or positions.dim() not in (2, 3) or any(size != 1 for size in leading):
        return f"what is added to the embedding has the shape {tuple(positions.shape)}"
    return None if positions.shape[-2] == ids.shape[-1] else "its positions are not as many as its places"


def _call(
    ids: torch.Tensor, positions: torch.Tensor | None, table: nn.Embedding, norm: nn.LayerNorm | nn.RMSNorm
) -> tuple[torch.Tensor, torch.Tensor]:
    if tuple(norm.normalized_shape) != (table.embedding_dim,):
        total = table(ids) if positions is None else table(ids) + positions
        return total, norm(total)
    if isinstance(norm, nn.LayerNorm):
        y, e = embedding_layer_norm(
            ids, table.weight, norm.weight, norm.bias, norm.eps, positions=positions,
            padding_idx=table.padding_idx,
        )  # fmt: skip
    else:
        y, e = embedding_rms_norm(
            ids, table.weight, norm.weight, norm.eps, positions=positions, padding_idx=table.padding_idx
        )
    return e, y
