"""Elements that move: reshapes across dimensions, joins, cuts, look-ups."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(10, 6)

    def forward(self, x, places):
        n, c, h, w = x.shape
        heads = x.reshape(n, self.heads, c // self.heads, h * w).transpose(1, 2) * 2
        shuffled = heads.reshape(n, c, h, w) + 1
        joined = torch.cat([x[:, ::2], x.flip(1)[:, 1:3] * 3, torch.stack([x[:, 0], x[:, -1]], 1)], dim=1)
        cut = torch.relu(F.pad(x, (1, 2, 0, 3), value=0.5)[:, :, 1:, :-1])
        first, second = x.chunk(2, dim=1)
        wider = torch.cat([x, second, torch.relu(x)], 1)
        turned = torch.roll(first, 1, 3) * torch.sigmoid(second) + x[:, 1:2, :1].expand(n, 1, h, w)
        found = self.table(places) + x.permute(0, 2, 3, 1)[:, 0, :5, :6]
        taken = x.flatten(2).gather(2, places[:, None, :].expand(n, c, 5)) - x[:, :, 0, places[0]]
        return heads, shuffled, joined, wider, cut, turned, found, taken, x.repeat(1, 2, 1, 1) + 1


def get_inputs():
    return [torch.randn(BATCH, 6, 5, 7), torch.randint(0, 7, (BATCH, 5))]


def get_init_inputs():
    return [3]
