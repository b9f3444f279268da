"""Top-k pooling of nodes, ranked by their projection on a vector and scaled by that score."""

import torch
from torch import nn

batch = 3
nodes = 41
width = 10


class Model(nn.Module):
    def __init__(self, width, keep):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(width))
        self.keep = keep

    def forward(self, x):
        score = torch.tanh(x @ self.direction / self.direction.norm())
        best, index = score.topk(self.keep, dim=1)
        kept = x.gather(1, index[:, :, None].expand(-1, -1, x.size(2)))
        return kept * best[:, :, None], index


def get_inputs():
    return [torch.randn(batch, nodes, width)]


def get_init_inputs():
    return [width, 27]
