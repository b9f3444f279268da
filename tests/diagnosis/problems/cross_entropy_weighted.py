"""Mean cross entropy with a weight for each class; some targets are ignored."""

import torch
import torch.nn.functional as F
from torch import nn

batch = 41
classes = 17


class Model(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) + 0.5)

    def forward(self, logits, target):
        return F.cross_entropy(logits, target, weight=self.weight, ignore_index=-100)


def get_inputs():
    target = torch.randint(0, classes, (batch,))
    target[torch.rand(batch) < 0.3] = -100
    target[0] = 3
    return [torch.randn(batch, classes) * 2, target]


def get_init_inputs():
    return [classes]
