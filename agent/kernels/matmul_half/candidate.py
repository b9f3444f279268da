"""Products of float16 or bfloat16 matrices with float32 sums on the tensor cores of sm_80 and later.

Transposed and strided operands are read in place.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>

torch::Tensor matmul_half(
    torch::Tensor a, torch::Tensor b, std::optional<torch::Tensor> c, double alpha, double beta);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

// alpha * a @ b + beta * c for a [batch, m, k], b [batch, k, n] and c [batch, m, n], whose steps may be 0.
torch::Tensor matmul_half(
    torch::Tensor a, torch::Tensor b, std::optional<torch::Tensor> c, double alpha, double beta) {
    const int64_t dtype = kernelwright::dtype_of(a);
    TORCH_CHECK(
        dtype != kernelwright::kFloat32 && dtype == kernelwright::dtype_of(b),
        "matmul_half: the operands are both float16 or both bfloat16");
    TORCH_CHECK(
        a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) > 0 && a.size(2) == b.size(1),
        "matmul_half: the operands do not fit");
    const c10::cuda::CUDAGuard guard(a.device());
    torch::Tensor y = torch::empty({a.size(0), a.size(1), b.size(2)}, a.options());
    if (y.numel() == 0) return y;
    kernelwright::matmul_half::Forward args = {};
    args.a = a.data_ptr();
    args.b = b.data_ptr();
    args.y = y.data_ptr();
    args.batch = a.size(0), args.m = a.size(1), args.n = b.size(2), args.k = a.size(2);
    args.a_batch = a.stride(0), args.a_row = a.stride(1), args.a_depth = a.stride(2);
    args.b_batch = b.stride(0), args.b_depth = b.stride(1), args.b_column = b.stride(2);
    if (c.has_value()) {
        TORCH_CHECK(
            kernelwright::dtype_of(*c) == dtype && c->sizes() == y.sizes(),
            "matmul_half: what is added has the operands' dtype and the product's shape");
        args.c = c->data_ptr();
        args.c_batch = c->stride(0), args.c_row = c->stride(1), args.c_column = c->stride(2);
    }
    args.dtype = dtype;
    args.alpha = alpha;
    args.beta = beta;
    args.stream = at::cuda::getCurrentCUDAStream();
    args.device = a.get_device();
    const cudaError_t error = kernelwright::matmul_half::forward(args);
    TORCH_CHECK(error != cudaErrorNotSupported, "matmul_half: the GPU is older than sm_80, which it needs");
    C10_CUDA_CHECK(error);
    return y;
}
"""

extension = load_inline(
    name="kernelwright_matmul_half",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["matmul_half"],
    extra_cuda_cflags=["-O3"],
)


def matmul_half(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None, alpha: float = 1.0, beta: float = 1.0
) -> torch.Tensor:
    """Return alpha * a @ b + beta * c for operands of rank 2 and more; c broadcasts to the product."""
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    flat = [x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (a, b)]
    added = None if c is None else c.expand(shape).reshape(-1, *shape[-2:])
    y: torch.Tensor = extension.matmul_half(*flat, added, alpha, beta)
    return y.view(shape)


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return matmul_half(a, b), matmul_half(x, weight.t(), bias)
