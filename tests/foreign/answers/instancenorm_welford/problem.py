import torch
import torch.nn as nn


class Model(nn.Module):
    """Instance norm (no affine part)."""

    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.inorm = nn.InstanceNorm2d(num_features, eps=eps)

    def forward(self, x):
        return self.inorm(x)


batch_size = 32
features = 64
dim1, dim2 = 192, 200


def get_inputs():
    return [torch.rand(batch_size, features, dim1, dim2) + 2.0]


def get_init_inputs():
    return [features]
