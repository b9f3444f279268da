# about = "An entry stays if the mass up to and with itself is below p: the one that reaches p is dropped."
# section = "mismatch"
# problem = "nucleus_filter"
# causes = ["scan-inclusive", "scan-off-by-one", "operator-missing", "mask-shifted"]
# says = ["inclu|itself|one|mask|shift|border|not subtracted|missing|left out"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
// A block per row. No sort: the mass before an entry is the sum of all that are more probable.
__global__ void nucleus(const float* logits, float* out, int n, float mass, float inv_temperature) {
    extern __shared__ float p[];
    __shared__ float kept_mass;
    int i = threadIdx.x;
    const float* row = logits + blockIdx.x * n;
    float z = i < n ? row[i] * inv_temperature : -INFINITY;
    if (i < n) p[i] = z;
    if (i == 0) kept_mass = 0.f;
    __syncthreads();
    float top = -INFINITY;
    for (int j = 0; j < n; ++j) top = fmaxf(top, p[j]);
    float total = 0.f;
    for (int j = 0; j < n; ++j) total += expf(p[j] - top);
    __syncthreads();
    if (i < n) p[i] = expf(z - top) / total;
    __syncthreads();
    float mine = 0.f;
    if (i < n) {
        float before = 0.f;
        for (int j = 0; j < n; ++j)
            if (p[j] > p[i] || (p[j] == p[i] && j < i)) before += p[j];
        if (before + p[i] < mass || before == 0.f) {
            mine = p[i];
            atomicAdd(&kept_mass, mine);
        }
    }
    __syncthreads();
    if (i < n) out[blockIdx.x * n + i] = mine / kept_mass;
}

torch::Tensor nucleus_filter(torch::Tensor logits, double mass, double temperature) {
    auto out = torch::empty_like(logits);
    int n = logits.size(1);
    int threads = (n + 31) / 32 * 32;
    nucleus<<<logits.size(0), threads, n * sizeof(float)>>>(logits.data_ptr<float>(), out.data_ptr<float>(), n, mass, 1.f / temperature);
    return out;
}
"""

cpp_source = "torch::Tensor nucleus_filter(torch::Tensor logits, double mass, double temperature);"

ext = load_inline(
    name="nucleus_filter_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["nucleus_filter"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, mass, temperature):
        super().__init__()
        self.mass = mass
        self.temperature = temperature

    def forward(self, logits):
        return ext.nucleus_filter(logits.contiguous(), self.mass, self.temperature)
