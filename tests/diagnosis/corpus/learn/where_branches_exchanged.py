# about = "The two branches are in each other's place."
# section = "mismatch"
# problem = "where_threshold"
# causes = ["operands-swapped", "sign-error", "mask-inverted"]
# says = ["swap|exchang|branch|condition|place|invert|compar|revers|other way"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CODE = r"""
// a block per row, so that the threshold is read once
__global__ void rows_where(const float* __restrict__ x, const float* __restrict__ t, float* __restrict__ y,
                           int rows, int columns, float a, float lo) {
    __shared__ float limit;
    const int row = blockIdx.x;
    if (threadIdx.x == 0) limit = t[row % rows];
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        const float v = x[row * columns + c];
        const float scaled = v * a;
        const float bounded = v < lo ? lo : v;
        y[row * columns + c] = v > limit ? bounded : scaled;
    }
}

torch::Tensor rows_where_cuda(torch::Tensor x, torch::Tensor t, double a, double lo) {
    auto y = torch::empty_like(x);
    rows_where<<<x.size(0) * x.size(1), 32>>>(x.data_ptr<float>(), t.data_ptr<float>(), y.data_ptr<float>(),
                                            x.size(1), x.size(2), (float)a, (float)lo);
    return y;
}
"""

m = load_inline("rows_where", cpp_sources="torch::Tensor rows_where_cuda(torch::Tensor x, torch::Tensor t, double a, double lo);",
                cuda_sources=CODE, functions=["rows_where_cuda"])


class ModelNew(nn.Module):
    def __init__(self, factor, floor):
        super().__init__()
        self.factor, self.floor = factor, floor

    def forward(self, x, threshold):
        return m.rows_where_cuda(x.contiguous(), threshold.contiguous(), self.factor, self.floor)
