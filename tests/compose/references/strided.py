"""Windows as a dimension, and views by strides."""

import torch
import torch.nn as nn

BATCH = 3


class Model(nn.Module):
    def forward(self, x):
        a = x.unfold(2, 4, 4).sum(-1) * 2
        b = x.unfold(2, 5, 3).amax(-1)[:, :6] + x.unfold(1, 2, 1)[..., 1].mean(2, keepdim=True)
        c = (x + 1).as_strided((x.shape[0], 6), (7 * x.shape[2], 2), 3) * 3
        d = x.unfold(1, 7, 7).unfold(2, 2, 2).permute(0, 3, 1, 2, 4).relu()
        return a, b, c, d


def get_inputs():
    return [torch.randn(BATCH, 7, 20)]


def get_init_inputs():
    return []
