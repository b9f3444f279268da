# about = "The distance sums signed differences, and the last three columns of each row are not updated."
# section = "mismatch"
# problem = "ema_update"
# faults = [{causes = ["operator-missing", "square-omitted"], says = ["abs|sign"]}, {causes = ["lost-last-block", "last-element-left-out", "unwritten-output"], says = ["last|tail|column|remain|vector"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void row_distance(const float* a, const float* x, float* d, int width) {
    __shared__ float acc[64];
    int t = threadIdx.x;
    float s = 0.f;
    for (int j = t; j < width; j += 64) s += x[blockIdx.x * width + j] - a[blockIdx.x * width + j];
    acc[t] = s;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (t < k) acc[t] += acc[t + k];
        __syncthreads();
    }
    if (t == 0) d[blockIdx.x] = acc[0];
}

__global__ void row_update(float* a, const float* x, float decay, int width) {
    int quads = width / 4;
    float* row = a + blockIdx.x * width;
    const float* src = x + blockIdx.x * width;
    for (int q = threadIdx.x; q < quads; q += blockDim.x) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            int j = 4 * q + k;
            row[j] = decay * row[j] + (1.f - decay) * src[j];
        }
    }
}

torch::Tensor ema_step(torch::Tensor a, torch::Tensor x, double decay) {
    auto d = torch::empty({a.size(0)}, a.options());
    int rows = a.size(0), width = a.size(1);
    row_distance<<<rows, 64>>>(a.data_ptr<float>(), x.data_ptr<float>(), d.data_ptr<float>(), width);
    row_update<<<rows, 16>>>(a.data_ptr<float>(), x.data_ptr<float>(), decay, width);
    return d;
}
"""
ext = load_inline("ema_step", cpp_sources="torch::Tensor ema_step(torch::Tensor a, torch::Tensor x, double decay);", cuda_sources=SRC, functions=["ema_step"])


class ModelNew(nn.Module):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay

    def forward(self, average, x):
        distance = ext.ema_step(average, x.contiguous(), self.decay)
        return average, distance
