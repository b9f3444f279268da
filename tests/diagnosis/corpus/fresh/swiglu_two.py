# about = "Gate and value are read as two halves, not interleaved, and nothing is added to the value."
# section = "mismatch"
# problem = "clamped_swiglu"
# faults = [{causes = ["layout-misread", "wrong-channel"], says = ["layout|interleav|half|halves|stride|order|channel|chunk|split"]}, {causes = ["constant-added", "operator-missing"], says = ["1|one|add|constant|missing"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void swiglu(const float2* __restrict__ x, const float2* __restrict__ bias, float* __restrict__ y, int n, int hidden, float limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float* xf = (const float*)x + i / hidden * 2 * hidden + i % hidden;
        const float* bf = (const float*)bias + i % hidden;
        float2 v = make_float2(xf[0], xf[hidden]);
        float2 b = make_float2(bf[0], bf[hidden]);
        float gate = fminf(v.x + b.x, limit);
        float value = fmaxf(fminf(v.y + b.y, limit), -limit);
        float act = gate / (1.f + expf(-1.702f * gate));
        y[i] = act * value;
    }
}

torch::Tensor clamped_swiglu(torch::Tensor x, torch::Tensor bias, double limit) {
    auto sizes = x.sizes().vec();
    int hidden = sizes.back() / 2;
    sizes.back() = hidden;
    auto y = torch::empty(sizes, x.options());
    int n = y.numel();
    swiglu<<<(n + 127) / 128, 128>>>((const float2*)x.data_ptr<float>(), (const float2*)bias.data_ptr<float>(), y.data_ptr<float>(), n, hidden, (float)limit);
    return y;
}
"""

cpp_source = "torch::Tensor clamped_swiglu(torch::Tensor x, torch::Tensor bias, double limit);"

ext = load_inline(
    name="clamped_swiglu_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["clamped_swiglu"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, hidden, limit):
        super().__init__()
        self.limit = limit
        self.bias = nn.Parameter(torch.randn(2 * hidden) * 0.2)

    def forward(self, x):
        return ext.clamped_swiglu(x.contiguous(), self.bias, self.limit)
