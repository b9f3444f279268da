# about = "Floats are compared as signed integers, so that among negative ones the start wins and is then taken for an empty segment."
# section = "mismatch"
# problem = "segment_amax"
# causes = ["bits-compared", "reduction-start-value"]
# says = ["bits|integer|negative|zero|start|empty"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void prepare(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = -INFINITY;
}

__global__ void fold(const float* x, const int64_t* segment, float* out, int items, int width) {
    int item = blockIdx.x;
    for (int j = threadIdx.x; j < width; j += blockDim.x)
        atomicMax(reinterpret_cast<int*>(&out[segment[item] * width + j]), __float_as_int(x[item * width + j]));
}

__global__ void finish(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && out[i] == -INFINITY) out[i] = 0.f;
}

torch::Tensor segment_amax(torch::Tensor x, torch::Tensor segment, int segments) {
    int width = x.size(1), n = segments * width;
    auto out = torch::empty({segments, width}, x.options());
    prepare<<<(n + 63) / 64, 64>>>(out.data_ptr<float>(), n);
    fold<<<x.size(0), 16>>>(x.data_ptr<float>(), segment.data_ptr<int64_t>(), out.data_ptr<float>(), x.size(0), width);
    finish<<<(n + 63) / 64, 64>>>(out.data_ptr<float>(), n);
    return out;
}
"""
ext = load_inline("segment_amax", cpp_sources="torch::Tensor segment_amax(torch::Tensor x, torch::Tensor segment, int segments);", cuda_sources=SRC, functions=["segment_amax"])
SEGMENTS = 12


class ModelNew(nn.Module):
    def forward(self, x, segment):
        return ext.segment_amax(x.contiguous(), segment.contiguous(), SEGMENTS)
