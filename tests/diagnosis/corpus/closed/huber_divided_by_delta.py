# about = "The smooth L1 form: everything is divided by delta."
# section = "mismatch"
# problem = "huber"
# causes = ["scale-missing", "wrong-divisor", "wrong-slope"]
# says = ["delta|beta|divi|factor|scal|0\\.7|smooth"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

huber_src = r"""
__global__ void huber_kernel(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out,
                             int cols, float delta) {
    __shared__ float acc[32];
    int row = blockIdx.x, tid = threadIdx.x;
    float sum = 0.f;
    for (int c = tid; c < cols; c += blockDim.x) {
        float e = fabsf(a[row * cols + c] - b[row * cols + c]);
        sum += e < delta ? 0.5f * e * e / delta : e - 0.5f * delta;
    }
    acc[tid] = sum;
    __syncthreads();
    for (int s = 16; s > 0; s >>= 1) {
        if (tid < s) acc[tid] += acc[tid + s];
        __syncthreads();
    }
    if (tid == 0) out[row] = acc[0] / cols;
}

torch::Tensor huber_rows(torch::Tensor a, torch::Tensor b, double delta) {
    int rows = a.size(0), cols = a.size(1);
    auto out = torch::empty({rows}, a.options());
    huber_kernel<<<rows, 32>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), cols, (float)delta);
    return out;
}
"""

huber = load_inline(
    name="huber_rows",
    cpp_sources="torch::Tensor huber_rows(torch::Tensor a, torch::Tensor b, double delta);",
    cuda_sources=huber_src,
    functions=["huber_rows"],
)


class ModelNew(nn.Module):
    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, prediction, target):
        return huber.huber_rows(prediction.contiguous(), target.contiguous(), self.delta)
