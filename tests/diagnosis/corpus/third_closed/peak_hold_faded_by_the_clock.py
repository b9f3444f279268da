# about = "Fades by the time since the beginning and not by the time since the peak."
# section = "mismatch"
# problem = "peak_hold"
# causes = ["wrong-decay", "index-ignored", "operator-missing", "wrong-index-base"]
# says = ["age|fade|decay|power|place|subtract|operator|exponent|factor|step|since|position"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
__global__ void cummax_kernel(const float* x, float* peak, long long* place, int steps, int channels) {
    const int c = threadIdx.x;
    const int b = blockIdx.x;
    float m = x[b * steps * channels + c];
    long long p = 0;
    for (int t = 0; t < steps; ++t) {
        const int i = (b * steps + t) * channels + c;
        if (x[i] >= m) { m = x[i]; p = t; }
        peak[i] = m;
        place[i] = p;
    }
}

__global__ void fade_kernel(float* peak, const float fade, int total, int steps, int channels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) {
        const int t = (i / channels) % steps;
        peak[i] *= powf(fade, t);
    }
}

std::vector<torch::Tensor> faded_cummax(torch::Tensor x, double fade) {
    auto peak = torch::empty_like(x);
    auto place = torch::empty(x.sizes(), torch::TensorOptions().dtype(torch::kInt64).device(x.device()));
    const int steps = x.size(1), channels = x.size(2), total = x.numel();
    cummax_kernel<<<x.size(0), channels>>>(x.data_ptr<float>(), peak.data_ptr<float>(), (long long*)place.data_ptr<int64_t>(), steps, channels);
    fade_kernel<<<(total + 255) / 256, 256>>>(peak.data_ptr<float>(), (float)fade, total, steps, channels);
    return {peak, place};
}
"""

faded = load_inline(
    name="faded_cummax",
    cpp_sources="#include <vector>\nstd::vector<torch::Tensor> faded_cummax(torch::Tensor x, double fade);",
    cuda_sources=cuda_source,
    functions=["faded_cummax"],
)


class ModelNew(nn.Module):
    def __init__(self, fade):
        super().__init__()
        self.fade = fade

    def forward(self, x):
        return tuple(faded.faded_cummax(x.contiguous(), self.fade))
