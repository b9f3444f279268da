# about = "The logit and the weight of an ignored target are read before the target is tested: index -100."
# section = "run"
# problem = "cross_entropy_weighted"
# causes = ["global-out-of-bounds-read", "illegal-address"]
# says = ["bounds|outside|before|illegal|past"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void cross_entropy_rows(const float* __restrict__ logits, const int64_t* __restrict__ target,
                                   const float* __restrict__ weight, float* __restrict__ sums, int rows, int classes) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* x = logits + row * classes;
    int label = (int)target[row];
    float w = weight[label];
    float picked = x[label];
    float peak = x[0];
    for (int c = 1; c < classes; ++c) peak = fmaxf(peak, x[c]);
    float total = 0.f;
    for (int c = 0; c < classes; ++c) total += expf(x[c] - peak);
    float value = logf(total) + peak - picked;
    if (label != -100) {
        atomicAdd(&sums[0], w * value);
        atomicAdd(&sums[1], w);
    }
}

__global__ void ratio(const float* sums, float* out) { out[0] = sums[0] / sums[1]; }

torch::Tensor weighted_cross_entropy(torch::Tensor logits, torch::Tensor target, torch::Tensor weight) {
    auto sums = torch::zeros({2}, logits.options());
    auto out = torch::empty({}, logits.options());
    int rows = logits.size(0);
    cross_entropy_rows<<<(rows + 31) / 32, 32>>>(logits.data_ptr<float>(), target.data_ptr<int64_t>(),
        weight.data_ptr<float>(), sums.data_ptr<float>(), rows, logits.size(1));
    ratio<<<1, 1>>>(sums.data_ptr<float>(), out.data_ptr<float>());
    return out;
}
"""

op = load_inline(
    name="weighted_cross_entropy",
    cpp_sources="torch::Tensor weighted_cross_entropy(torch::Tensor logits, torch::Tensor target, torch::Tensor weight);",
    cuda_sources=source,
    functions=["weighted_cross_entropy"],
)


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) + 0.5)

    def forward(self, logits, target):
        return op.weighted_cross_entropy(logits.contiguous(), target.contiguous(), self.weight.contiguous())
