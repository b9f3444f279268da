# about = "The places are counted from the start of each tile of 64 rows."
# section = "mismatch"
# problem = "cummax_columns"
# causes = ["wrong-index-base"]
# says = ["tile|block|offset|relative|start|base|local|64"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

kernel = r"""
struct Best { float value; int at; };

__device__ Best later(Best a, Best b) { return b.value >= a.value ? b : a; }

__global__ void running_max(const float* x, float* values, long* at, int rows, int cols) {
    __shared__ Best part[64];
    int col = blockIdx.x, t = threadIdx.x;
    Best carry = {-INFINITY, 0};
    for (int top = 0; top < rows; top += 64) {
        int r = top + t;
        part[t] = r < rows ? Best{x[r * cols + col], t} : Best{-INFINITY, t};
        __syncthreads();
        for (int d = 1; d < 64; d *= 2) {
            Best mine = part[t];
            if (t >= d) mine = later(part[t - d], mine);
            __syncthreads();
            part[t] = mine;
            __syncthreads();
        }
        Best mine = later(carry, part[t]);
        if (r < rows) {
            values[r * cols + col] = mine.value;
            at[r * cols + col] = mine.at;
        }
        carry = later(carry, part[63]);
        __syncthreads();
    }
}

std::vector<torch::Tensor> running_max_columns(torch::Tensor x) {
    auto values = torch::empty_like(x);
    auto at = torch::empty(x.sizes(), x.options().dtype(torch::kLong));
    running_max<<<x.size(1), 64>>>(x.data_ptr<float>(), values.data_ptr<float>(), (long*)at.data_ptr<int64_t>(),
                                   x.size(0), x.size(1));
    return {values, at};
}
"""

ext = load_inline(
    name="running_max_columns",
    cpp_sources="std::vector<torch::Tensor> running_max_columns(torch::Tensor x);",
    cuda_sources=kernel,
    functions=["running_max_columns"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return tuple(ext.running_max_columns(x.contiguous()))
