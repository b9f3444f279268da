# about = "Elements outside of the range count nowhere; the reference counts them in the end bins."
# section = "mismatch"
# problem = "soft_histogram"
# causes = ["clamp-missing", "operator-missing", "mask-wrong-place", "wrong-fill-value"]
# says = ["clamp|outside|range|bound|mask|missing|end"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void soft_hist(const float* x, float* hist, int n, int bins, float low, float high) {
    extern __shared__ float local[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) local[b] = 0.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float v = x[blockIdx.x * n + i];
        float place = (v - low) / (high - low) * bins - 0.5f;
        if (place <= -1.0f || place >= bins) continue;
        int left = (int)floorf(place);
        float t = place - left;
        if (left >= 0) atomicAdd(&local[left], 1.0f - t);
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
"""

cpp_source = "torch::Tensor soft_histogram(torch::Tensor x, double low, double high, int64_t bins);"

ext = load_inline(
    name="soft_histogram_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["soft_histogram"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, low, high, bins):
        super().__init__()
        self.low, self.high, self.bins = low, high, bins

    def forward(self, x):
        return ext.soft_histogram(x.contiguous(), self.low, self.high, self.bins)
