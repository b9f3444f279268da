"""Word and position embeddings and their LayerNorm: the beginning of an encoder."""

import torch
import torch.nn as nn

batch_size = 32
places = 512
features = 768
entries = 30522


class Model(nn.Module):
    """Module that returns layer_norm(words[ids] + positions), `[batch_size, places, features]`."""

    def __init__(self, entries: int, places: int, features: int) -> None:
        super().__init__()
        self.words = nn.Embedding(entries, features)
        self.positions = nn.Parameter(torch.randn(places, features))
        self.norm = nn.LayerNorm(features)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.norm(self.words(ids) + self.positions)
        return embedded


def get_inputs() -> list[torch.Tensor]:
    return [torch.randint(0, entries, (batch_size, places))]


def get_init_inputs() -> list[int]:
    return [entries, places, features]
