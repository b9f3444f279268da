import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

inorm_cuda = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

struct Welford {
    float mean, m2, n;
};

__device__ __forceinline__ Welford combine(const Welford& a, const Welford& b) {
    Welford r;
    r.n = a.n + b.n;
    if (r.n == 0.f) { r.mean = 0.f; r.m2 = 0.f; return r; }
    const float d = b.mean - a.mean;
    const float f = b.n / r.n;
    r.mean = a.mean + d * f;
    r.m2 = a.m2 + b.m2 + d * d * a.n * f;
    return r;
}

__device__ __forceinline__ Welford warp_combine(Welford w) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        Welford t;
        t.mean = __shfl_xor_sync(0xffffffff, w.mean, o);
        t.m2 = __shfl_xor_sync(0xffffffff, w.m2, o);
        t.n = __shfl_xor_sync(0xffffffff, w.n, o);
        w = combine(w, t);
    }
    return w;
}

template <int THREADS>
__global__ void instance_norm_kernel(const float* __restrict__ x, float* __restrict__ y, int len, float eps) {
    __shared__ Welford sh[THREADS / 32];
    __shared__ float stat[2];
    const float* p = x + (size_t)blockIdx.x * len;
    float* q = y + (size_t)blockIdx.x * len;

    Welford w = {0.f, 0.f, 0.f};
    for (int i = threadIdx.x; i < len; i += THREADS) {
        const float v = p[i];
        w.n += 1.f;
        const float d = v - w.mean;
        w.mean += d / w.n;
        w.m2 += d * (v - w.mean);
    }
    w = warp_combine(w);
    if (threadIdx.x % 32 == 0) sh[threadIdx.x / 32] = w;
    __syncthreads();
    if (threadIdx.x < 32) {
        Welford z = {0.f, 0.f, 0.f};
        if (threadIdx.x < THREADS / 32) z = sh[threadIdx.x];
        z = warp_combine(z);
        if (threadIdx.x == 0) {
            stat[0] = z.mean;
            stat[1] = rsqrtf(z.m2 / (float)len + eps);
        }
    }
    __syncthreads();
    const float mean = stat[0], inv = stat[1];
    for (int i = threadIdx.x; i < len; i += THREADS) q[i] = (p[i] - mean) * inv;
}

torch::Tensor instance_norm(torch::Tensor x, double eps) {
    TORCH_CHECK(x.dim() == 4, "NCHW input expected");
    auto xc = x.contiguous();
    auto y = torch::empty_like(xc);
    const int len = xc.size(2) * xc.size(3);
    const int planes = xc.size(0) * xc.size(1);
    auto stream = at::cuda::getCurrentCUDAStream();
    if (len >= 4096)
        instance_norm_kernel<512><<<planes, 512, 0, stream>>>(xc.data_ptr<float>(), y.data_ptr<float>(), len, (float)eps);
    else
        instance_norm_kernel<128><<<planes, 128, 0, stream>>>(xc.data_ptr<float>(), y.data_ptr<float>(), len, (float)eps);
    return y;
}
"""

inorm = load_inline(name="instance_norm_welford",
                    cpp_sources="torch::Tensor instance_norm(torch::Tensor x, double eps);",
                    cuda_sources=inorm_cuda, functions=["instance_norm"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return inorm.instance_norm(x, self.eps)
