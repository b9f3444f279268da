# about = "The maximum begins at zero, and the scan runs along the rows."
# section = "mismatch"
# problem = "cummax_columns"
# faults = [{causes = ["reduction-start-value", "wrong-initial-state"], says = ["start|init|begin|zero| 0"]}, {causes = ["wrong-axis"], says = ["dim|axis|along|row"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

_src = r"""
#include <torch/extension.h>
#include <tuple>

__global__ void cummax_fwd(const float* __restrict__ in, float* __restrict__ val, int64_t* __restrict__ idx,
                           const int outer, const int n) {
    const int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o < outer) {
        float m = 0.f;
        int64_t k = 0;
        const int first = o * n;
        for (int i = 0; i < n; ++i) {
            const float v = in[first + i];
            if (v >= m) {
                m = v;
                k = i;
            }
            val[first + i] = m;
            idx[first + i] = k;
        }
    }
}

std::tuple<torch::Tensor, torch::Tensor> cummax_launch(torch::Tensor in) {
    auto val = torch::zeros_like(in);
    auto idx = torch::zeros(in.sizes(), in.options().dtype(torch::kInt64));
    const int outer = in.size(0);
    const int n = in.size(1);
    const dim3 block(128);
    const dim3 grid((outer + block.x - 1) / block.x);
    cummax_fwd<<<grid, block>>>(in.data_ptr<float>(), val.data_ptr<float>(), idx.data_ptr<int64_t>(), outer, n);
    return std::make_tuple(val, idx);
}
"""

_mod = load_inline(
    name="cummax_fwd",
    cpp_sources="#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> cummax_launch(torch::Tensor in);",
    cuda_sources=_src,
    functions=["cummax_launch"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, x):
        values, indices = _mod.cummax_launch(x.contiguous())
        return values, indices
