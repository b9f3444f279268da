import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear, ReLU, dropout (inactive in eval), then a per-feature scale."""

    def __init__(self, in_features, out_features, dropout_p=0.2):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.dropout = nn.Dropout(dropout_p)
        self.scale = nn.Parameter(torch.ones(out_features))
        self.eval()

    def forward(self, x):
        x = torch.relu(self.matmul(x))
        x = self.dropout(x)
        return x * self.scale


in_features, out_features = 512, 2048


def get_inputs():
    return [torch.randn(4096, in_features)]


def get_init_inputs():
    return [in_features, out_features]
