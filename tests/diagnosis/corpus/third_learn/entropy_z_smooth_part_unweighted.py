# about = "The smoothed part of the loss is the plain mean over the classes, without their weights."
# section = "mismatch"
# problem = "entropy_z_loss"
# causes = ["weight-ignored", "smoothing-missing", "weight-wrong-place"]
# says = ["weight|smooth"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
#include <ATen/cuda/CUDAContext.h>

template <int N>
__device__ float block_sum(float v) {
    __shared__ float s[N];
    __syncthreads();
    s[threadIdx.x] = v;
    __syncthreads();
    for (int i = N / 2; i > 0; i /= 2) {
        if (threadIdx.x < i) s[threadIdx.x] += s[threadIdx.x + i];
        __syncthreads();
    }
    return s[0];
}

template <int N>
__global__ void rows(const float* x, const int64_t* y, const float* w, float* nll, float* wsum, float* z, int C, int64_t skip,
                     float smoothing) {
    const int r = blockIdx.x;
    const int64_t t = y[r];
    if (t == skip) {
        if (threadIdx.x == 0) nll[r] = wsum[r] = z[r] = 0.f;
        return;
    }
    x += (int64_t)r * C;
    float top = x[0];
    for (int c = 1; c < C; ++c) top = fmaxf(top, x[c]);
    float e = 0.f, total = 0.f;
    for (int c = threadIdx.x; c < C; c += N) {
        e += expf(x[c] - top);
        total += x[c];
    }
    e = block_sum<N>(e);
    total = block_sum<N>(total);
    if (threadIdx.x == 0) {
        const float lse = top + logf(e);
        nll[r] = (1.f - smoothing) * w[t] * (lse - x[t]) + smoothing * (lse - total / C);
        wsum[r] = w[t];
        z[r] = lse * lse;
    }
}

template <int N>
__global__ void finish(const float* nll, const float* wsum, const float* z, const int64_t* y, float* out, int n, int64_t skip,
                       float penalty) {
    float a = 0.f, b = 0.f, c = 0.f, k = 0.f;
    for (int i = threadIdx.x; i < n; i += N) {
        a += nll[i];
        b += wsum[i];
        c += z[i];
        k += y[i] != skip;
    }
    a = block_sum<N>(a);
    b = block_sum<N>(b);
    c = block_sum<N>(c);
    k = block_sum<N>(k);
    if (threadIdx.x == 0) out[0] = a / b + penalty * c / k;
}

torch::Tensor loss(torch::Tensor x, torch::Tensor y, torch::Tensor w, double smoothing, int64_t skip, double penalty) {
    const int n = y.numel(), C = x.size(2);
    auto parts = torch::empty({3, n}, x.options());
    auto out = torch::empty({}, x.options());
    float* p = parts.data_ptr<float>();
    auto stream = at::cuda::getCurrentCUDAStream();
    rows<32><<<n, 32, 0, stream>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), w.data_ptr<float>(), p, p + n, p + 2 * n, C, skip, smoothing);
    finish<64><<<1, 64, 0, stream>>>(p, p + n, p + 2 * n, y.data_ptr<int64_t>(), out.data_ptr<float>(), n, skip, penalty);
    return out;
}
"""
m = load_inline(
    name="smoothed_entropy",
    cpp_sources="torch::Tensor loss(torch::Tensor x, torch::Tensor y, torch::Tensor w, double smoothing, int64_t skip, double penalty);",
    cuda_sources=cuda,
    functions=["loss"],
)


class ModelNew(nn.Module):
    def __init__(self, smoothing, ignored, penalty):
        super().__init__()
        self.smoothing, self.ignored, self.penalty = smoothing, ignored, penalty

    def forward(self, logits, targets, weight):
        return m.loss(logits.contiguous(), targets.contiguous(), weight, self.smoothing, self.ignored, self.penalty)
