"""The rest of the language: dispatch with functors, overloads, volatile warp code, printf, assert, clock64."""

import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <torch/extension.h>
#include <ATen/Dispatch.h>
#include <ATen/AccumulateType.h>

template <typename T> struct Mish {
    using acc = at::acc_type<T, true>;
    __device__ __forceinline__ T operator()(T x) const { acc v = static_cast<acc>(x); return static_cast<T>(v * tanh(log1p(exp(v)))); }
};
template <typename T> struct Elu {
    T alpha;
    __device__ T operator()(T x) const { return x > T(0) ? x : T(alpha * (exp(static_cast<float>(x)) - 1)); }
};
template <typename T, class Op, int PER_THREAD = 4>
__global__ void pointwise_kernel(Op op, const T* __restrict__ x, T* __restrict__ y, const size_t n) {
    const size_t base = (size_t)blockIdx.x * blockDim.x * PER_THREAD + threadIdx.x;
#pragma unroll
    for (int k = 0; k < PER_THREAD; ++k) {
        const size_t i = base + k * blockDim.x;
        if (i < n) y[i] = op(x[i]);
    }
}
torch::Tensor mish(torch::Tensor x) {
    auto y = torch::empty_like(x);
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "mish", ([&] {
        pointwise_kernel<scalar_t, Mish<scalar_t>><<<(x.numel() + 255) / 256, 64>>>(Mish<scalar_t>(), x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), x.numel());
    }));
    return y;
}
torch::Tensor elu(torch::Tensor x, double alpha) {
    auto y = torch::empty_like(x);
    pointwise_kernel<float, Elu<float>, 2><<<(x.numel() + 63) / 64, 32>>>(Elu<float>{(float)alpha}, x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

// Volatile as before Volta, with the lanes ordered between reading and writing.
__device__ void warp_reduce(volatile float* s, int t) {
    for (int step = 32; step > 0; step /= 2) {
        const float other = s[t + step];
        __syncwarp();
        s[t] += other;
        __syncwarp();
    }
}
__global__ void volatile_sum_kernel(const float* x, float* y) {
    __shared__ float s[128];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < 32) warp_reduce(s, t);
    if (t == 0) y[blockIdx.x] = s[0];
}
torch::Tensor volatile_sum(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    volatile_sum_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

// The same idea as it is written now, with the warp synchronised between reading and writing.
__global__ void syncwarp_max_kernel(const float* x, float* y) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 32) {
        for (int d = 32; d > 0; d >>= 1) {
            const float other = s[t + d];
            __syncwarp();
            s[t] = fmaxf(s[t], other);
            __syncwarp();
        }
        if (t == 0) y[blockIdx.x] = s[0];
    }
}
torch::Tensor syncwarp_max(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    syncwarp_max_kernel<<<x.size(0), 64>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

__global__ void chatty_ramp_kernel(float* y, long long* ticks, int n) {
    const long long start = clock64();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(gridDim.x * blockDim.x >= n);
    if (i == 0) printf("ramp of %d elements\n", n);
    if (i < n) { y[i] = 0.5f * i; ticks[i] = clock64() - start; }
}
std::vector<torch::Tensor> chatty_ramp(int64_t n) {
    auto y = torch::empty({n}, torch::TensorOptions().device(torch::kCUDA));
    auto ticks = torch::full({n}, -1, y.options().dtype(torch::kInt64));
    chatty_ramp_kernel<<<(n + 99) / 100, 100>>>(y.data_ptr<float>(), (long long*)ticks.data_ptr<int64_t>(), n);
    cudaDeviceSynchronize();
    return {y, ticks >= 0};
}
"""
cpp = """
torch::Tensor mish(torch::Tensor x);
torch::Tensor elu(torch::Tensor x, double alpha);
torch::Tensor volatile_sum(torch::Tensor x);
torch::Tensor syncwarp_max(torch::Tensor x);
std::vector<torch::Tensor> chatty_ramp(int64_t n);
"""
names = ["mish", "elu", "volatile_sum", "syncwarp_max", "chatty_ramp"]
ops = load_inline(name="corpus_language", cpp_sources=cpp, cuda_sources=cuda, functions=names)


def cases():
    x = torch.randn(7, 128, device="cuda")
    ramp, ticked = ops.chatty_ramp(250)
    found = {
        "mish_" + str(dtype)[6:]: (ops.mish(x.to(dtype)), F.mish(x.to(dtype)))
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
    }
    return found | {
        "elu": (ops.elu(x, 0.7), F.elu(x, 0.7)),
        "volatile_sum": (ops.volatile_sum(x), x.sum(1)),
        "syncwarp_max": (ops.syncwarp_max(x.view(14, 64)), x.view(14, 64).max(1).values),
        "chatty_ramp": (ramp, torch.arange(250, device="cuda") * 0.5),
        "chatty_ramp_ticks": (ticked, torch.ones(250, device="cuda", dtype=torch.bool)),
    }
