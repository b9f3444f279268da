"""GELU in float32, exact (erf) or by the tanh approximation, of a tensor of any shape.

One pass, 16 bytes a load where the data is aligned. Inference only: no gradient flows through it.
"""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SOURCE = "torch::Tensor gelu(torch::Tensor x, bool approximate_tanh);"

CUDA_SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cstdint>

constexpr int kThreads = 8 * 32;
constexpr int64_t kMaxBlocks = 32 * 32 * 32;  // beyond it a thread takes several packs

template <int V>
struct alignas(4 * V) Pack {
    float v[V];
};

// Hendrycks and Gimpel, arXiv 1606.08415: x * Phi(x), or its approximation by tanh.
template <bool kTanh>
__device__ __forceinline__ float gelu_of(float x) {
    if (kTanh) {
        const float sqrt_2_over_pi = 0.7978845608028654f;
        return 0.5f * x * (1.0f + tanhf(sqrt_2_over_pi * (x + 0.044715f * x * x * x)));
    }
    const float sqrt_half = 0.7071067811865476f;
    return 0.5f * x * (1.0f + erff(x * sqrt_half));
}

template <int V, bool kTanh>
__global__ void gelu_kernel(const float* __restrict__ x, float* __restrict__ y, int64_t packs) {
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < packs; i += step) {
        Pack<V> pack = reinterpret_cast<const Pack<V>*>(x)[i];
        for (int k = 0; k < V; ++k) pack.v[k] = gelu_of<kTanh>(pack.v[k]);
        reinterpret_cast<Pack<V>*>(y)[i] = pack;
    }
}

template <int V>
void launch(const torch::Tensor& x, torch::Tensor& y, bool approximate_tanh) {
    const int64_t packs = x.numel() / V;
    const unsigned grid = unsigned(std::min((packs + kThreads - 1) / kThreads, kMaxBlocks));
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    if (approximate_tanh) {
        gelu_kernel<V, true><<<grid, kThreads, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), packs);
    } else {
        gelu_kernel<V, false><<<grid, kThreads, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<float>(), packs);
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

torch::Tensor gelu(torch::Tensor x, bool approximate_tanh) {
    TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "gelu: x is not float32 on the GPU");
    const c10::cuda::CUDAGuard guard(x.device());
    x = x.contiguous();
    torch::Tensor y = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return y;
    const bool aligned = reinterpret_cast<uintptr_t>(x.data_ptr<float>()) % sizeof(Pack<4>) == 0;
    if (x.numel() % 4 == 0 && aligned) {
        launch<4>(x, y, approximate_tanh);
    } else {
        launch<1>(x, y, approximate_tanh);
    }
    return y;
}
"""

extension = load_inline(
    name="kernelwright_gelu",
    cpp_sources=CPP_SOURCE,
    cuda_sources=CUDA_SOURCE,
    functions=["gelu"],
    extra_cuda_cflags=["-O3"],
)


def gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """`torch.nn.functional.gelu`; approximate is `none` or `tanh`."""
    y: torch.Tensor = extension.gelu(x, approximate == "tanh")
    return y


class ModelNew(nn.Module):
    """Takes the constructor arguments of `Model` and has its state_dict keys."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return gelu(x, "none")
