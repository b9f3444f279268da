"""Products by what their operands are: triangles, diagonals, few rows or columns, little depth."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
LIBRARY_OPS = "none"


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.square = nn.Parameter(torch.randn(features, features))
        self.diagonal = nn.Parameter(torch.randn(features))
        self.last = nn.Linear(features, 3)

    def forward(self, x, y):
        square = self.square
        a = torch.triu(square.tril() @ square) + torch.tril(x @ square.triu().T, -1)
        b = torch.diag(self.diagonal) @ F.relu(x.mT) @ torch.diag_embed(self.diagonal * 2)[:, :20]
        c = torch.addmm(self.diagonal, y[:2], square, beta=0.5, alpha=-2.0), y[0] @ square
        d = self.last(F.gelu(x)).tanh(), square[:, :4].T @ square
        e = x[:, :, :5] @ x[:, :5, :20] + x[:, :, :1] @ x[:, :1, :20]
        f = torch.tril(torch.matmul(x, x.mT)) * 2, square.tril().expand(x.shape[0], -1, -1) @ x.mT
        return a, b, *c, *d, e, *f


def get_inputs():
    return [torch.randn(BATCH, 20, 20), torch.randn(7, 20)]


def get_init_inputs():
    return [20]
