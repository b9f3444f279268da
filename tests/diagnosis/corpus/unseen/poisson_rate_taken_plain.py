# about = "The input is taken for the rate and not for its logarithm: logarithms of negative numbers."
# section = "mismatch"
# problem = "poisson_rows"
# causes = ["overflow-to-nan", "nan-output", "non-finite-output", "operator-missing", "log-missing", "operator-doubled", "wrong-activation", "activation-missing"]
# says = ["nan|finite|log|exp|undefined|negative"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="poisson_by_warps",
    cpp_sources="torch::Tensor loss(torch::Tensor rate, torch::Tensor count);",
    cuda_sources=r"""
__global__ void loss_kernel(const float* rate, const float* count, float* y, int rows, int columns) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.f;
    for (int i = lane; i < columns; i += 32) {
        float x = rate[row * columns + i], n = count[row * columns + i];
        float term = x - n * logf(x + 1e-8f);
        if (n > 1.f) term += n * logf(n) - n + 0.5f * logf(6.2831853f * n);
        sum += term;
    }
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (lane == 0) y[row] = sum / columns;
}

torch::Tensor loss(torch::Tensor rate, torch::Tensor count) {
    int rows = rate.size(0), columns = rate.size(1);
    auto y = torch::empty({rows}, rate.options());
    int warps = 4;
    loss_kernel<<<(rows + warps - 1) / warps, 32 * warps>>>(rate.data_ptr<float>(), count.data_ptr<float>(),
        y.data_ptr<float>(), rows, columns);
    return y;
}
""",
    functions=["loss"],
)


class ModelNew(nn.Module):
    def forward(self, rate, count):
        return ext.loss(rate.contiguous(), count.contiguous())
