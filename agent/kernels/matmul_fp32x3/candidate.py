"""Products of float32 matrices with float32 accuracy.

The file for sm_90 computes on the tensor cores, every other GPU in float32 arithmetic. Transposed and strided
operands are read in place.

Inference only: this file has no backward. `agent.kernels` wraps the same device code with a gradient.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = """
#include <optional>

torch::Tensor matmul_fp32x3(
    torch::Tensor a, torch::Tensor b, std::optional<torch::Tensor> c, double alpha, double beta,
    int64_t a_part, int64_t b_part, int64_t y_part);
"""

CUDA_SOURCE = r"""
#include "csrc/launch.cuh"
#include "../csrc/candidate.cuh"

// alpha * a @ b + beta * c for a [batch, m, k], b [batch, k, n] and c [batch, m, n], whose steps may be 0.
torch::Tensor matmul_fp32x3(
    torch::Tensor a, torch::Tensor b, std::optional<torch::Tensor> c, double alpha, double beta,
    int64_t a_part, int64_t b_part, int64_t y_part) {
    TORCH_CHECK(
        kernelwright::dtype_of(a) == kernelwright::kFloat32 &&
            kernelwright::dtype_of(b) == kernelwright::kFloat32,
        "matmul_fp32x3: the operands are float32");
    TORCH_CHECK(
        a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) > 0 && a.size(2) == b.size(1),
        "matmul_fp32x3: the operands do not fit");
    const c10::cuda::CUDAGuard guard(a.device());
    torch::Tensor y = torch::empty({a.size(0), a.size(1), b.size(2)}, a.options());
    if (y.numel() == 0) return y;
    kernelwright::matmul::Forward args = {};
    args.a = a.data_ptr<float>();
    args.b = b.data_ptr<float>();
    args.y = y.data_ptr<float>();
    args.batch = a.size(0), args.m = a.size(1), args.n = b.size(2), args.k = a.size(2);
    args.a_batch = a.stride(0), args.a_row = a.stride(1), args.a_depth = a.stride(2);
    args.b_batch = b.stride(0), args.b_depth = b.stride(1), args.b_column = b.stride(2);
    if (c.has_value()) {
        TORCH_CHECK(
            kernelwright::dtype_of(*c) == kernelwright::kFloat32 && c->sizes() == y.sizes(),
            "matmul_fp32x3: what is added is float32 and of the product's shape");
        args.c = c->data_ptr<float>();
        args.c_batch = c->stride(0), args.c_row = c->stride(1), args.c_column = c->stride(2);
    }
    args.a_part = a_part, args.b_part = b_part, args.y_part = y_part;
    args.alpha = alpha;
    args.beta = beta;
    args.stream = at::cuda::getCurrentCUDAStream();
    args.device = a.get_device();
    const int64_t needed = kernelwright::matmul::forward_workspace(args);
    torch::Tensor workspace = torch::empty({needed}, a.options().dtype(torch::kUInt8));
    args.workspace = needed == 0 ? nullptr : workspace.data_ptr();
    C10_CUDA_CHECK(kernelwright::matmul::forward(args));
    return y;
}
"""

extension = load_inline(
    name="kernelwright_matmul_fp32x3",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["matmul_fp32x3"],
    extra_cuda_cflags=["-O3"],
)


PARTS = ("whole", "lower", "upper")


def matmul_fp32x3(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
    parts: tuple[str, str, str] = ("whole", "whole", "whole"),
) -> torch.Tensor:  # fmt: skip
    """Return alpha * a @ b + beta * c for operands of rank 2 and more; c broadcasts to the product.

    `parts` gives the triangle of a, b and the result: whole, lower or upper. The other side of the diagonal
    counts as 0 and is neither read nor computed.
    """
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    flat = [x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (a, b)]
    added = None if c is None else c.expand(shape).reshape(-1, *shape[-2:])
    y: torch.Tensor = extension.matmul_fp32x3(*flat, added, alpha, beta, *map(PARTS.index, parts))
    return y.view(shape)


class ModelNew(nn.Module):
    """Module with the constructor arguments and the state_dict keys of the reference's `Model`."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return matmul_fp32x3(a, b)
