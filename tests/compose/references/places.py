"""Elements that are written to places another tensor holds, and rows that are sorted."""

import torch
import torch.nn as nn

BATCH = 6


class Model(nn.Module):
    def forward(self, x, y, groups, slots):
        kept = x.new_zeros(20, 10).index_copy(0, slots, x[:, 0])
        put = y.clone()
        put[slots] = x[:, 1]
        masked = x.clone()
        masked[x > 0.5] = 2.0
        counts = torch.zeros(4, dtype=torch.int64, device=x.device).index_add(0, groups, groups * 0 + 1)
        order = (x[:, 0] * 1).argsort(1)
        best, at = torch.topk(x, 3, dim=1)
        probs = x[:, 0].softmax(-1)
        top, index = torch.topk(probs, 2)
        return (
            x.new_zeros(4, 10).index_add(0, groups, x[:, 0]),
            kept,
            put,
            masked,
            counts,
            x.scatter_add(2, (x > 0).long() + 1, x),
            torch.zeros_like(probs).scatter(-1, index, top / top.sum(-1, keepdim=True)),
            x.sort(2, descending=True)[0],
            x.sort(1)[0],
            order,
            best,
            at,
            x[groups % x.shape[0]],
        )


def get_inputs():
    return [
        torch.randn(BATCH, 8, 10),
        torch.randn(20, 10),
        torch.randint(0, 4, (BATCH,)),
        torch.randperm(20)[:BATCH],
    ]


def get_init_inputs():
    return []
