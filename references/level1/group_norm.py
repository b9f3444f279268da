"""GroupNorm over image activations: statistics per sample and group, an affine step per channel."""

import torch
import torch.nn as nn

batch_size = 112
features = 64
num_groups = 8
height = 512
width = 512


class Model(nn.Module):
    """Normalises every (sample, group) over its channels and all positions, then scales and shifts each channel."""

    def __init__(self, num_features: int, num_groups: int) -> None:
        super().__init__()
        self.gn = nn.GroupNorm(num_groups=num_groups, num_channels=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gn(x)


def get_inputs():
    return [torch.rand(batch_size, features, height, width)]


def get_init_inputs():
    return [features, num_groups]
