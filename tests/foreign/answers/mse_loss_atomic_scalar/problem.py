import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, predictions, targets):
        return nn.functional.mse_loss(predictions, targets)


n = 32768
features = 1000


def get_inputs():
    return [torch.rand(n, features), torch.rand(n, features)]


def get_init_inputs():
    return []
