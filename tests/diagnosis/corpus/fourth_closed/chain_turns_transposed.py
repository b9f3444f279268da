# about = "The forward pass reads the turns transposed, from the following tag to the one before."
# section = "mismatch"
# problem = "crf_log_likelihood"
# causes = ["transposed-operand", "layout-misread", "wrong-axis", "softmax-wrong-axis", "coordinates-swapped", "operands-swapped"]
# says = ["transpos|layout|axis|axes|dim|swap|exchang|order|row|column|revers|turn"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

crf_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

#define MAX_TAGS 32

__device__ float log_sum_exp(const float* v, int n) {
    float m = v[0];
    for (int i = 1; i < n; i++) m = fmaxf(m, v[i]);
    float s = 0.0f;
    for (int i = 0; i < n; i++) s += expf(v[i] - m);
    return m + logf(s);
}

// block = one sequence, thread = one tag
__global__ void forward_kernel(const float* __restrict__ emission, const int64_t* __restrict__ length,
                               const float* __restrict__ start, const float* __restrict__ turn, const float* __restrict__ end,
                               float* __restrict__ log_z, int steps, int tags) {
    __shared__ float alpha[MAX_TAGS];
    int b = blockIdx.x;
    int j = threadIdx.x;
    int len = (int)length[b];
    const float* e = emission + b * steps * tags;
    if (j < tags) alpha[j] = start[j] + e[j];
    __syncthreads();
    for (int t = 1; t < len; t++) {
        float next = 0.0f;
        if (j < tags) {
            float v[MAX_TAGS];
            for (int i = 0; i < tags; i++) v[i] = alpha[i] + turn[j * tags + i];
            next = log_sum_exp(v, tags) + e[t * tags + j];
        }
        __syncthreads();
        if (j < tags) alpha[j] = next;
        __syncthreads();
    }
    if (j < tags) alpha[j] += end[j];
    __syncthreads();
    if (j == 0) log_z[b] = log_sum_exp(alpha, tags);
}

__global__ void gold_kernel(const float* emission, const int64_t* path, const int64_t* length, const float* start,
                            const float* turn, const float* end, float* gold, int batch, int steps, int tags) {
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    const int64_t* p = path + b * steps;
    const float* e = emission + b * steps * tags;
    int len = (int)length[b];
    float score = start[p[0]] + e[p[0]];
    for (int t = 1; t < len; t++) score += turn[p[t - 1] * tags + p[t]] + e[t * tags + p[t]];
    gold[b] = score + end[p[len - 1]];
}

std::vector<torch::Tensor> crf(torch::Tensor emission, torch::Tensor path, torch::Tensor length, torch::Tensor start,
                               torch::Tensor turn, torch::Tensor end) {
    int batch = emission.size(0), steps = emission.size(1), tags = emission.size(2);
    auto log_z = torch::empty({batch}, emission.options());
    auto gold = torch::empty({batch}, emission.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    forward_kernel<<<batch, MAX_TAGS, 0, stream>>>(emission.data_ptr<float>(), length.data_ptr<int64_t>(),
        start.data_ptr<float>(), turn.data_ptr<float>(), end.data_ptr<float>(), log_z.data_ptr<float>(), steps, tags);
    gold_kernel<<<(batch + 31) / 32, 32, 0, stream>>>(emission.data_ptr<float>(), path.data_ptr<int64_t>(),
        length.data_ptr<int64_t>(), start.data_ptr<float>(), turn.data_ptr<float>(), end.data_ptr<float>(),
        gold.data_ptr<float>(), batch, steps, tags);
    return {log_z, gold};
}
"""

crf_cpp = """
#include <vector>
std::vector<torch::Tensor> crf(torch::Tensor emission, torch::Tensor path, torch::Tensor length, torch::Tensor start,
                               torch::Tensor turn, torch::Tensor end);
"""

crf_ext = load_inline(name="crf_ext", cpp_sources=crf_cpp, cuda_sources=crf_source, functions=["crf"])


class ModelNew(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.randn(tags))
        self.turn = nn.Parameter(torch.randn(tags, tags))
        self.end = nn.Parameter(torch.randn(tags))

    def forward(self, emission, path, length):
        log_z, gold = crf_ext.crf(emission.contiguous(), path.contiguous(), length.contiguous(), self.start, self.turn, self.end)
        return log_z, gold
