# about = "Warps hand chunks over in a ring of two stages; for a warp one lane arrives, once all have met."
# category = "structure"
# problem = "row_max"
# confirmed = true

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="row_max",
    cpp_sources="torch::Tensor row_max(torch::Tensor x);",
    cuda_sources=r"""
__device__ __forceinline__ unsigned address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void make(unsigned long long* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(barrier)) : "memory");
}

__device__ __forceinline__ void arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}

__device__ __forceinline__ void wait(unsigned long long* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}\n" ::"r"(address(barrier)),
        "r"(parity)
        : "memory");
}

constexpr int kStages = 2;

__global__ void max_kernel(const float* x, float* y, int columns) {
    __shared__ float ring[kStages][32];
    __shared__ unsigned long long full[kStages], empty[kStages];
    const int lane = threadIdx.x % 32, chunks = (columns + 31) / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < kStages; ++i) make(full + i), make(empty + i);
    }
    __syncthreads();
    float top = -INFINITY;
    for (int i = 0; i < chunks; ++i) {
        const int stage = i % kStages, round = i / kStages % 2;
        if (threadIdx.x < 32) {
            const int column = i * 32 + lane;
            wait(empty + stage, round ^ 1);
            ring[stage][lane] = column < columns ? x[blockIdx.x * columns + column] : -INFINITY;
            __syncwarp();
            if (lane == 0) arrive(full + stage);
        } else {
            wait(full + stage, round);
            top = fmaxf(top, fmaxf(ring[stage][lane], ring[stage][lane ^ 1]));
            __syncwarp();
            if (lane == 0) arrive(empty + stage);
        }
    }
    for (int other = 16; other > 0; other /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, other));
    if (threadIdx.x == 32) y[blockIdx.x] = top;
}

torch::Tensor row_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    max_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["row_max"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.row_max(x.contiguous())
