# about = "Every cell looks for its samples; the best class by a key of ordered bits and place."
# section = "right"
# problem = "confusion_weighted"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
// Turned round: every cell looks through all samples for its own. No atomics, one order of summation.
__global__ void predictions(const float* scores, int* predicted, int n, int C) {
    int i = blockIdx.x, lane = threadIdx.x;
    unsigned long long best = 0;
    for (int c = lane; c < C; c += 32) {
        unsigned bits = __float_as_uint(scores[i * C + c]);
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        unsigned long long key = ((unsigned long long)bits << 32) | (unsigned)(C - c);
        best = key > best ? key : best;
    }
    for (int o = 16; o; o >>= 1) {
        unsigned long long other = __shfl_xor_sync(0xffffffffu, best, o);
        best = other > best ? other : best;
    }
    if (lane == 0) predicted[i] = C - (int)(best & 0xffffffffu);
}

__global__ void cells_of_row(const int* predicted, const int64_t* truth, const float* weight, float* out, int n, int C) {
    int row = blockIdx.x, column = threadIdx.x;
    float mine = 0.f, all = 0.5f;
    for (int i = 0; i < n; ++i) {
        if ((int)truth[i] != row) continue;
        all += weight[i];
        if (predicted[i] == column) mine += weight[i];
    }
    if (column < C) out[row * C + column] = mine / all;
}

torch::Tensor confusion_gather(torch::Tensor scores, torch::Tensor truth, torch::Tensor weight) {
    int n = scores.size(0), C = scores.size(1);
    auto predicted = torch::empty({n}, scores.options().dtype(torch::kInt32));
    auto out = torch::empty({C, C}, weight.options());
    predictions<<<n, 32>>>(scores.data_ptr<float>(), predicted.data_ptr<int>(), n, C);
    cells_of_row<<<C, (C + 31) / 32 * 32>>>(predicted.data_ptr<int>(), truth.data_ptr<int64_t>(), weight.data_ptr<float>(), out.data_ptr<float>(), n, C);
    return out;
}
"""

cpp_source = "torch::Tensor confusion_gather(torch::Tensor scores, torch::Tensor truth, torch::Tensor weight);"

ext = load_inline(
    name="confusion_gather_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["confusion_gather"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()

    def forward(self, scores, truth, weight):
        return ext.confusion_gather(scores.contiguous(), truth.contiguous(), weight.contiguous())
