# about = "A right answer: a block per row, compensated sums at the end."
# section = "right"
# problem = "cross_entropy_weighted"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
__global__ void rows_kernel(const float* x, const int64_t* y, const float* w, float2* parts, int classes) {
    __shared__ float buffer[32];
    const int row = blockIdx.x, t = threadIdx.x;
    float value = t < classes ? x[row * classes + t] : -INFINITY;
    buffer[t] = value;
    __syncthreads();
    float top = buffer[0];
    for (int c = 1; c < 32; ++c) top = fmaxf(top, buffer[c]);
    __syncthreads();
    buffer[t] = t < classes ? expf(value - top) : 0.f;
    __syncthreads();
    for (int s = 16; s > 0; s >>= 1) {
        if (t < s) buffer[t] += buffer[t + s];
        __syncthreads();
    }
    if (t == 0) {
        const int64_t label = y[row];
        float2 part = make_float2(0.f, 0.f);
        if (label != -100) part = make_float2(w[label] * (logf(buffer[0]) - (x[row * classes + label] - top)), w[label]);
        parts[row] = part;
    }
}

__global__ void total_kernel(const float2* parts, float* out, int rows) {
    float sum = 0.f, lost = 0.f, weights = 0.f;
    for (int r = 0; r < rows; ++r) {
        float next = __fsub_rn(parts[r].x, lost);
        float grown = __fadd_rn(sum, next);
        lost = __fsub_rn(__fsub_rn(grown, sum), next);
        sum = grown;
        weights += parts[r].y;
    }
    *out = sum / weights;
}

torch::Tensor entropy(torch::Tensor x, torch::Tensor y, torch::Tensor w) {
    TORCH_CHECK(x.size(1) <= 32, "up to 32 classes");
    auto parts = torch::empty({x.size(0), 2}, x.options());
    auto out = torch::empty({}, x.options());
    rows_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), w.data_ptr<float>(),
                                   reinterpret_cast<float2*>(parts.data_ptr<float>()), x.size(1));
    total_kernel<<<1, 1>>>(reinterpret_cast<const float2*>(parts.data_ptr<float>()), out.data_ptr<float>(), x.size(0));
    return out;
}
"""

ops = load_inline(
    name="entropy_rows",
    cpp_sources="torch::Tensor entropy(torch::Tensor x, torch::Tensor y, torch::Tensor w);",
    cuda_sources=source,
    functions=["entropy"],
)


class ModelNew(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.register_buffer("weight", torch.ones(classes))

    def forward(self, logits, target):
        return ops.entropy(logits.contiguous(), target.contiguous(), self.weight)
