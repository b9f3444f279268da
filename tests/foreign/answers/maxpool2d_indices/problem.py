import torch
import torch.nn as nn


class Model(nn.Module):
    """Max pooling that also hands back the flat index of every maximum."""

    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=stride, padding=padding, return_indices=True)

    def forward(self, x):
        values, indices = self.pool(x)
        return values, indices


batch_size, channels, height, width = 32, 64, 112, 112


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [3, 2, 1]
