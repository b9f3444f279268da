# about = "The weighted sum is divided by the number of targets, where the sum of their weights belongs."
# section = "mismatch"
# problem = "cross_entropy_weighted"
# causes = ["wrong-divisor"]
# says = ["divi|weight|count|mean"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ce_cuda = r"""
#include <cuda_runtime.h>

__global__ void ce_kernel(const float* logits, const int64_t* target, const float* weight, float* loss, int N, int C, int64_t ignore) {
    __shared__ float s_loss[256];
    __shared__ int s_count[256];
    int tid = threadIdx.x;
    float loss_sum = 0.0f;
    int count = 0;
    for (int i = tid; i < N; i += blockDim.x) {
        int64_t t = target[i];
        if (t == ignore) continue;
        const float* row = logits + i * C;
        float mx = row[0];
        for (int c = 1; c < C; c++) mx = fmaxf(mx, row[c]);
        float sum = 0.0f;
        for (int c = 0; c < C; c++) sum += expf(row[c] - mx);
        loss_sum += weight[t] * (logf(sum) + mx - row[t]);
        count++;
    }
    s_loss[tid] = loss_sum;
    s_count[tid] = count;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) {
            s_loss[tid] += s_loss[tid + s];
            s_count[tid] += s_count[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) loss[0] = s_loss[0] / s_count[0];
}

torch::Tensor ce_forward(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t ignore) {
    auto loss = torch::empty({}, logits.options());
    ce_kernel<<<1, 256>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(), weight.data_ptr<float>(),
                          loss.data_ptr<float>(), logits.size(0), logits.size(1), ignore);
    return loss;
}
"""

ce_ext = load_inline(
    name="ce_ext",
    cpp_sources="torch::Tensor ce_forward(torch::Tensor logits, torch::Tensor target, torch::Tensor weight, int64_t ignore);",
    cuda_sources=ce_cuda,
    functions=["ce_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) + 0.5)

    def forward(self, logits, target):
        return ce_ext.ce_forward(logits.contiguous(), target.contiguous(), self.weight, -100)
