# about = "Only whole strides of the block are walked: what is left over of a row is not counted."
# section = "mismatch"
# problem = "soft_histogram"
# causes = ["lost-lanes", "lost-last-block", "last-element-left-out"]
# says = ["last|tail|left|lane|thread|stride|block|remaind|partial"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="soft_histogram_cuda",
    cpp_sources="torch::Tensor soft_histogram(torch::Tensor x, double low, double high, int64_t bins);",
    cuda_sources=r"""
__global__ void soft_hist(const float* x, float* hist, int n, int bins, float low, float high) {
    extern __shared__ float local[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i + blockDim.x - threadIdx.x <= n; i += blockDim.x) {
        float v = x[blockIdx.x * n + i];
        float place = (v - low) / (high - low) * bins - 0.5f;
        place = fminf(fmaxf(place, 0.0f), bins - 1.0f);
        int left = (int)place;
        float t = place - left;
        atomicAdd(&local[left], 1.0f - t);
        if (left + 1 < bins) atomicAdd(&local[left + 1], t);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) hist[blockIdx.x * bins + b] = local[b] / n;
}

torch::Tensor soft_histogram(torch::Tensor x, double low, double high, int64_t bins) {
    auto hist = torch::empty({x.size(0), bins}, x.options());
    soft_hist<<<x.size(0), 64, bins * sizeof(float)>>>(x.data_ptr<float>(), hist.data_ptr<float>(), x.size(1), bins, low, high);
    return hist;
}
""",
    functions=["soft_histogram"],
)


class ModelNew(nn.Module):
    def __init__(self, low, high, bins):
        super().__init__()
        self.low, self.high, self.bins = low, high, bins

    def forward(self, x):
        return ext.soft_histogram(x.contiguous(), self.low, self.high, self.bins)
