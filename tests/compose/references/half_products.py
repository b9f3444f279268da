"""Products of 16-bit numbers with what stands around them: float16 and bfloat16, batches, transposed operands."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
LIBRARY_OPS = "none"


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, 24)
        self.point = nn.Conv1d(9, 12, 1)
        self.last = nn.Linear(24, 3)

    def forward(self, x, y):
        dtype = self.first.weight.dtype
        a = F.relu(self.first(x.to(dtype)).float() * 0.5)
        scores = (x @ x.mT / 4).softmax(-1)
        b = scores @ x
        c = torch.baddbmm(y[:, :, :1], y, y.mT, beta=0.5, alpha=0.25) + 1
        d = self.point(y.to(dtype)).tanh().to(y.dtype)
        return a, b, c, d, self.last(a.to(dtype)).to(x.dtype)


def get_inputs():
    return [torch.randn(BATCH, 9, 20).half(), torch.randn(BATCH, 9, 20).bfloat16()]


def get_init_inputs():
    return [20]
