"""Cross entropy of a linear layer's logits, with label smoothing: the end of a language model."""

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 4096
features = 1024
classes = 32000
smoothing = 0.1


class Model(nn.Module):
    """Module that returns cross_entropy(linear(x), target) of each row; 0 for rows with target -100."""

    def __init__(self, features: int, classes: int, smoothing: float) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes, bias=False)
        self.smoothing = smoothing

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.linear(x), target, reduction="none", label_smoothing=self.smoothing)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(batch_size, features), torch.randint(0, classes, (batch_size,))]


def get_init_inputs() -> list[float]:
    return [features, classes, smoothing]
