# about = "Plain torch, without any CUDA."
# category = "build"
# problem = "softmax"
# status = ["rejected"]
# finding = 'no-cuda-kernel'
# stage = ["screen"]

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
