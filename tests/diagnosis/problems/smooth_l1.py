"""Mean Huber-like loss with a threshold."""

import torch
import torch.nn.functional as F
from torch import nn

rows = 26
columns = 45
beta = 0.5


class Model(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, prediction, target):
        return F.smooth_l1_loss(prediction, target, beta=self.beta)


def get_inputs():
    return [torch.randn(rows, columns), torch.randn(rows, columns)]


def get_init_inputs():
    return [beta]
