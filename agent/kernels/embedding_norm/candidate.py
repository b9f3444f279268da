"""LayerNorm of an embedding plus positions, for ids [*, places] of a table's entries.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
torch::Tensor embedding_layer_norm(
    torch::Tensor ids, torch::Tensor table, torch::Tensor positions, torch::Tensor weight, torch::Tensor bias,
    double eps);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

torch::Tensor embedding_layer_norm(
    torch::Tensor ids, torch::Tensor table, torch::Tensor positions, torch::Tensor weight, torch::Tensor bias,
    double eps) {
    const int64_t dtype = kernelwright::dtype_of(table);
    TORCH_CHECK(ids.dim() > 0 && table.dim() == 2, "embedding_layer_norm: sizes do not fit");
    TORCH_CHECK(ids.is_cuda() && ids.scalar_type() == torch::kInt64, "embedding_layer_norm: ids are int64");
    const int64_t features = table.size(1), places = ids.size(-1);
    const c10::cuda::CUDAGuard guard(table.device());
    table = table.contiguous();
    ids = ids.contiguous();
    const torch::Tensor beside = kernelwright::parameter(positions, places * features);
    TORCH_CHECK(beside.scalar_type() == table.scalar_type(), "embedding_layer_norm: two dtypes");
    const torch::Tensor scale = kernelwright::parameter(weight, features);
    const torch::Tensor shift = kernelwright::parameter(bias, features);
    std::vector<int64_t> shape(ids.sizes().begin(), ids.sizes().end());
    shape.push_back(features);
    torch::Tensor y = torch::empty(shape, table.options()), embedded = torch::empty(shape, table.options());
    if (y.numel() == 0) return y;
    C10_CUDA_CHECK(kernelwright::embedding_norm::forward(
        {ids.data_ptr<int64_t>(), table.data_ptr(), beside.data_ptr(), scale.data_ptr(), shift.data_ptr(),
         y.data_ptr(), embedded.data_ptr(), nullptr, nullptr, ids.numel(), features, table.size(0), places, 1,
         dtype, kernelwright::dtype_of(scale, shift, table), eps, at::cuda::getCurrentCUDAStream(),
         table.get_device()}));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_embedding_norm",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["embedding_layer_norm"],
    extra_cuda_cflags=["-O3"],
)


def embedding_layer_norm(
    ids: torch.Tensor, table: torch.Tensor, positions: torch.Tensor, norm: nn.LayerNorm
) -> torch.Tensor:
    """Return norm(table[ids] + positions)."""
    y: torch.Tensor = extension.embedding_layer_norm(ids, table, positions, norm.weight, norm.bias, norm.eps)
    return y


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def __init__(self, entries: int, places: int, features: int) -> None:
        super().__init__()
        self.words = nn.Embedding(entries, features)
        self.positions = nn.Parameter(torch.randn(places, features))
        self.norm = nn.LayerNorm(features)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return embedding_layer_norm(ids, self.words.weight, self.positions, self.norm)
