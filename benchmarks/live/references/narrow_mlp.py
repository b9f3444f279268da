"""The small network of a neural field: a million points through three narrow layers."""

import torch
import torch.nn as nn

points = 1048576
in_features = 16
hidden = 32
out_features = 4


class Model(nn.Module):
    """Linear, SiLU, Linear, SiLU, Linear, sigmoid, for each point."""

    def __init__(self, in_features: int, hidden: int, out_features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(in_features, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, out_features), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def get_inputs():
    return [torch.randn(points, in_features)]


def get_init_inputs():
    return [in_features, hidden, out_features]
