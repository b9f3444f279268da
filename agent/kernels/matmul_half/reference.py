"""Products of float16 and of bfloat16 matrices, the bfloat16 product with a bias and a transposed operand."""

import torch
import torch.nn as nn

batch_size = 4096
features = 4096
results = 2048


class Model(nn.Module):
    """Module that returns two products with float32 sums, each rounded once."""

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.matmul(a, b), torch.addmm(bias, x, weight.t())


def get_inputs() -> list[torch.Tensor]:
    return [
        torch.randn(batch_size, features, dtype=torch.float16),
        torch.randn(features, results, dtype=torch.float16),
        torch.randn(batch_size, features, dtype=torch.bfloat16),
        torch.randn(results, features, dtype=torch.bfloat16),
        torch.randn(results, dtype=torch.bfloat16),
    ]


def get_init_inputs() -> list[int]:
    return []
