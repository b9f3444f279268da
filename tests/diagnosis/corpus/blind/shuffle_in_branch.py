# about = "A full-mask shuffle that only lanes with a class reach."
# section = "run"
# problem = "cross_entropy"
# causes = ["warp-op-absent-lanes", "warp-op-divergent", "warp-mask-excludes-caller"]
# says = ["mask|lane|warp"]
# stage = ["run", "verify"]
# line = "shfl"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cfloat>

__global__ void cross_entropy_kernel(const float* logits, const int64_t* target, float* loss, int batch, int classes) {
    int row = blockIdx.x;
    const float* x = logits + row * classes;
    float m = -FLT_MAX;
    for (int i = threadIdx.x; i < classes; i += 32) m = fmaxf(m, x[i]);
    for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    float s = 0.0f;
    if (threadIdx.x < classes) {
        s = expf(x[threadIdx.x] - m);
        for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    }
    if (threadIdx.x == 0) {
        float nll = logf(s) + m - x[target[row]];
        loss[row] = nll;
    }
}

__global__ void mean_kernel(const float* loss, float* out, int batch) {
    __shared__ float sh[64];
    float s = 0.0f;
    for (int i = threadIdx.x; i < batch; i += 64) s += loss[i];
    sh[threadIdx.x] = s;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (threadIdx.x < k) sh[threadIdx.x] += sh[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = sh[0] / batch;
}

torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor target) {
    int batch = logits.size(0);
    int classes = logits.size(1);
    auto loss = torch::empty({batch}, logits.options());
    auto out = torch::empty({}, logits.options());
    cross_entropy_kernel<<<batch, 32>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(), loss.data_ptr<float>(), batch, classes);
    mean_kernel<<<1, 64>>>(loss.data_ptr<float>(), out.data_ptr<float>(), batch);
    return out;
}
"""

cpp_src = "torch::Tensor cross_entropy(torch::Tensor logits, torch::Tensor target);"

ce = load_inline(name="ce_loss", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["cross_entropy"])


class ModelNew(nn.Module):
    def forward(self, logits, target):
        return ce.cross_entropy(logits.contiguous(), target.contiguous())
