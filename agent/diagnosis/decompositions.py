"""Decompositions of torch's fused operators into plain operators.

A fault inside a fused operator is a fault in one of its parts, for which `wrong_references` has rules. Each
function takes the operator's arguments and returns its results, equal up to rounding. Results that no
reference reads (seeds, counts for gradients) are empty tensors.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from agent.diagnosis import alignments

Tensor = torch.Tensor
Plain = Callable[..., Any]


def find_decomposition(func: Any) -> Plain | None:
    """Return the decomposition of an operator, or None for operators that are recorded whole."""
    name = str(func._schema.name).split("::")[-1]
    return _PLAIN.get(name) if not func._schema.is_mutable else None


def _attention(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **more: Any) -> tuple[Tensor, Tensor]:
    given = dict(zip(("dropout_p", "is_causal"), rest, strict=False)) | more
    scale, attn_mask = given.get("scale"), given.get("attn_mask")
    key, value = (_for_each_head(t, query.shape[1]) for t in (key, value))
    scores = torch.matmul(query, key.transpose(-1, -2)) * (
        query.shape[-1] ** -0.5 if scale is None else scale
    )
    if given.get("is_causal", False):
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        scores = scores.masked_fill(ones.tril().logical_not(), -math.inf)
    if attn_mask is not None:
        scores = scores + attn_mask
    return torch.matmul(scores.softmax(-1), value), query.new_empty(0)


def _for_each_head(t: Tensor, heads: int) -> Tensor:
    """Repeat keys or values that several query heads share, once for each head."""
    return t if t.shape[1] == heads else t.repeat_interleave(heads // t.shape[1], 1)


def _multi_head(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_head: int, *rest: Any, **more: Any
) -> tuple[Tensor, Tensor]:
    """Compute the input projections, the attention of each head and the output projection."""
    names = ("qkv_weight", "qkv_bias", "proj_weight", "proj_bias", "mask", "need_weights",
             "average_attn_weights", "mask_type")  # fmt: skip
    given = dict(zip(names, rest, strict=False)) | more
    weights, biases = given["qkv_weight"].chunk(3), given["qkv_bias"].chunk(3)
    parts = zip((query, key, value), weights, biases, strict=True)
    q, k, v = (torch.nn.functional.linear(x, w, b) for x, w, b in parts)
    q, k, v = (t.reshape(*t.shape[:2], num_head, embed_dim // num_head).transpose(1, 2) for t in (q, k, v))
    scores = torch.matmul(q, k.transpose(-1, -2)) * (embed_dim // num_head) ** -0.5
    if (mask := given.get("mask")) is not None:
        # A mask of type 1 marks the padded keys of each sample.
        spread = mask[:, None, None, :] if given.get("mask_type") == 1 else mask
        scores = scores.masked_fill(spread, -math.inf)
    shares = scores.softmax(-1)
    joined = torch.matmul(shares, v).transpose(1, 2).flatten(2)
    out = torch.nn.functional.linear(joined, given["proj_weight"], given["proj_bias"])
    if not given.get("need_weights", True):
        return out, query.new_empty(0)
    return out, shares.mean(1) if given.get("average_attn_weights", True) else shares


def _embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, *rest: Any, **more: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Look up rows of the table, weight them and reduce each bag by sum, mean or maximum."""
    names = (
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "per_sample_weights",
        "include_last_offset",
        "padding_idx",
    )
    given = dict(zip(names, rest, strict=False)) | more
    mode, padding_idx = given.get("mode", 0), given.get("padding_idx", -1)
    per_sample_weights = given.get("per_sample_weights")
    include_last_offset = given.get("include_last_offset", False)
    begins = offsets.tolist()[: -1 if include_last_offset else None]
    ends = [*begins[1:], offsets.tolist()[-1] if include_last_offset else indices.numel()]
    rows = torch.embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    empty = offsets.new_empty(0)
    places, held = _bags(begins, ends, indices)
    if padding_idx >= 0:
        held = held & (indices[places] != padding_idx)
    bags = rows[places]
    if bool(held.all()):
        return _joined(bags, mode, 1), empty, empty, empty
    if mode == 2:
        most = bags.masked_fill(held.logical_not().unsqueeze(-1), -math.inf).amax(1)
        return most.masked_fill(most == -math.inf, 0.0), empty, empty, empty
    total = (bags * held.unsqueeze(-1)).sum(1)
    count = held.sum(1).clamp_min(1).unsqueeze(-1)
    return total if mode == 0 else total / count, empty, empty, empty


def _bags(begins: list[int], ends: list[int], indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row positions of each bag, padded to the longest bag, and a mask of the valid ones."""
    longest = max((end - begin for begin, end in zip(begins, ends, strict=True)), default=0)
    step = torch.arange(max(longest, 1), device=indices.device)
    begin, end = (torch.tensor(bounds, device=indices.device).unsqueeze(1) for bounds in (begins, ends))
    held = step < end - begin
    return (begin + step).clamp_max(max(indices.numel() - 1, 0)), held


def _joined(bags: Tensor, mode: int, axis: int) -> Tensor:
    return bags.sum(axis) if mode == 0 else bags.mean(axis) if mode == 1 else bags.amax(axis)


def _distances(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    return torch.as_tensor(torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1))


def _gated(self: Tensor, dim: int = -1) -> Tensor:
    first, second = self.chunk(2, dim)
    return first * second.sigmoid()


def _plus_product(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    product = tensor1 * tensor2
    return self + (product if value == 1 else product * value)


def _plus_quotient(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    quotient = tensor1 / tensor2
    return self + (quotient if value == 1 else quotient * value)


def _between(self: Tensor, end: Tensor, weight: Any) -> Tensor:
    return torch.as_tensor(self + (end - self) * weight)


def _norm(self: Tensor, p: float | None = 2, dim: Any = None, keepdim: bool = False, **more: Any) -> Tensor:
    order = 2 if p is None else p
    return torch.as_tensor(torch.linalg.vector_norm(self, order, dim or None, keepdim, **more))


def _deviation_and_mean(self: Tensor, *rest: Any, **more: Any) -> tuple[Tensor, Tensor]:
    return torch.std(self, *rest, **more), _mean_beside(self, rest, more)


def _variance_and_mean(self: Tensor, *rest: Any, **more: Any) -> tuple[Tensor, Tensor]:
    return torch.var(self, *rest, **more), _mean_beside(self, rest, more)


def _mean_beside(self: Tensor, rest: tuple[Any, ...], more: dict[str, Any]) -> Tensor:
    """Return the mean over the dimensions over which the call takes a variance or standard deviation."""
    dim = more.get("dim", rest[0] if rest and not isinstance(rest[0], bool) else None)
    kept = more.get("keepdim", rest[2] if len(rest) > 2 else False)
    return self.mean(dim, keepdim=kept) if dim is not None else self.mean()


def _plus_outer(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    outer = vec1.unsqueeze(-1) * vec2
    return (self if beta == 1 else beta * self) + (outer if alpha == 1 else alpha * outer)


def _plus_vector(self: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = torch.mv(mat, vec)
    return (self if beta == 1 else beta * self) + (product if alpha == 1 else alpha * product)


def _pairs_of_rows(self: Tensor, p: float = 2) -> Tensor:
    """Return the p-norm distance of each matrix row to every later row, ordered as in the upper triangle."""
    rows = self.shape[0]
    one, other = torch.triu_indices(rows, rows, 1, device=self.device).unbind()
    return torch.as_tensor(torch.linalg.vector_norm(self[one] - self[other], p, -1))


def _inner(self: Tensor, other: Tensor) -> Tensor:
    return (self * other).sum()


def _margins(
    self: Tensor, target: Tensor, p: float = 1, margin: float = 1, weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    """Return the multi-margin loss.

    The sum of max(0, margin - right score + wrong score) over the wrong classes is divided by the class
    count.
    """
    rows, classes = (self, target) if self.dim() == 2 else (self.unsqueeze(0), target.reshape(1))
    lacking = (margin - rows.gather(1, classes.unsqueeze(1)) + rows).clamp_min(0)
    lacking = lacking if p == 1 else lacking.pow(p)
    lacking = lacking if weight is None else lacking * weight[classes].unsqueeze(1)
    own = torch.arange(rows.shape[1], device=rows.device) == classes.unsqueeze(1)
    each = lacking.masked_fill(own, 0.0).sum(1) / rows.shape[1]
    each = each if self.dim() == 2 else each.squeeze(0)
    return each if reduction == 0 else each.mean() if reduction == 1 else each.sum()


_PLAIN: dict[str, Plain] = {
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_native_multi_head_attention": _multi_head,
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "_cdist_forward": _distances,
    "_pdist_forward": _pairs_of_rows,
    "glu": _gated,
    "addcmul": _plus_product,
    "addcdiv": _plus_quotient,
    "lerp": _between,
    "norm": _norm,
    "std_mean": _deviation_and_mean,
    "var_mean": _variance_and_mean,
    "addr": _plus_outer,
    "addmv": _plus_vector,
    "dot": _inner,
    "multi_margin_loss": _margins,
    "_ctc_loss": alignments.loss,
}
