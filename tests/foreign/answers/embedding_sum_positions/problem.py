import torch
import torch.nn as nn


class Model(nn.Module):
    """Token embedding scaled by sqrt(dim) plus a learned position embedding."""

    def __init__(self, vocab, dim, max_len, p=0.1):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.drop = nn.Dropout(p)
        self.dim = dim
        self.eval()

    def forward(self, ids):
        t = torch.arange(ids.size(1), device=ids.device)
        h = self.tok(ids) * self.dim ** 0.5 + self.pos(t)[None]
        return self.drop(h)


vocab = 32000
dim = 768
max_len = 1024


def get_inputs():
    return [torch.randint(0, vocab, (32, 512))]


def get_init_inputs():
    return [vocab, dim, max_len]
