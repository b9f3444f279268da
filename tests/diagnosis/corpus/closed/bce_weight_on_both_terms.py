# about = "The weight of positives multiplies the term of the negatives as well."
# section = "mismatch"
# problem = "bce_weighted"
# causes = ["weight-wrong-place", "scale-doubled", "activation-order"]
# says = ["weight|positive|negative|factor|scal"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

bce_src = r"""
__global__ void bce_kernel(const float* x, const float* t, const float* pw, float* partial, int n, int labels) {
    extern __shared__ float s[];
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        float stable = fmaxf(v, 0.0f) - v * t[i] + log1pf(expf(-fabsf(v)));
        sum += pw[i % labels] * stable;
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = s[0];
}

__global__ void sum_partial(const float* partial, float* out, int blocks, float inv) {
    float v = 0.0f;
    for (int i = 0; i < blocks; ++i) v += partial[i];
    out[0] = v * inv;
}

torch::Tensor bce(torch::Tensor x, torch::Tensor t, torch::Tensor pw) {
    const int n = x.numel(), threads = 64, blocks = 4;
    auto partial = torch::empty({blocks}, x.options());
    auto out = torch::empty({}, x.options());
    bce_kernel<<<blocks, threads, threads * sizeof(float)>>>(x.data_ptr<float>(), t.data_ptr<float>(), pw.data_ptr<float>(),
                                                           partial.data_ptr<float>(), n, pw.size(0));
    sum_partial<<<1, 1>>>(partial.data_ptr<float>(), out.data_ptr<float>(), blocks, 1.0f / n);
    return out;
}
"""

bce = load_inline(name="bce_pos", cpp_sources="torch::Tensor bce(torch::Tensor x, torch::Tensor t, torch::Tensor pw);",
                  cuda_sources=bce_src, functions=["bce"])


class ModelNew(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.register_buffer("positive", torch.rand(labels) * 3 + 1)

    def forward(self, logits, target):
        return bce.bce(logits.contiguous(), target.contiguous(), self.positive)
