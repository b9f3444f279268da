"""Linear, GroupNorm, minimum over the features, then a bias that broadcasts the result to four dimensions."""

import torch
import torch.nn as nn

batch_size = 1024
in_features = 8192
out_features = 8192
num_groups = 512
bias_shape = (1, out_features, 1, 1)


class Model(nn.Module):
    """The minimum has shape (B, 1); adding a bias of shape (1, F, 1, 1) makes the output (1, F, B, 1)."""

    def __init__(self, in_features: int, out_features: int, num_groups: int, bias_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.group_norm = nn.GroupNorm(num_groups, out_features)
        self.bias = nn.Parameter(torch.randn(bias_shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.group_norm(self.linear(x))
        smallest = torch.min(x, dim=1, keepdim=True)[0]
        return smallest + self.bias


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features, num_groups, bias_shape]
