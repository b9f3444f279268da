# about = "The high half of a byte is taken for the first of the two weights."
# section = "mismatch"
# problem = "nibble_linear"
# causes = ["operands-swapped", "layout-misread", "inverse-permutation", "coordinates-swapped", "weights-swapped"]
# says = ["swap|exchang|order|layout|half|nibble|low|high|operand"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void int4_linear(const float* x, const int64_t* packed, const float* scale, const float* zero, float* y,
                            int B, int K, int N, int groups) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= B * N) return;
    int b = warp / N, n = warp % N;
    int size = K / groups;
    float acc = 0.f;
    for (int p = lane; p < K / 2; p += 32) {
        int byte = (int)packed[n * (K / 2) + p];
        int g = 2 * p / size;
        float s = scale[n * groups + g], z = zero[n * groups + g];
        float w0 = ((byte >> 4) - z) * s;
        float w1 = ((byte & 15) - z) * s;
        acc += x[b * K + 2 * p] * w0 + x[b * K + 2 * p + 1] * w1;
    }
    for (int o = 16; o > 0; o >>= 1) acc += __shfl_down_sync(0xffffffffu, acc, o);
    if (lane == 0) y[b * N + n] = acc;
}

torch::Tensor int4_linear_forward(torch::Tensor x, torch::Tensor packed, torch::Tensor scale, torch::Tensor zero) {
    int B = x.size(0), K = x.size(1), N = packed.size(0);
    auto y = torch::empty({B, N}, x.options());
    int threads = 128, warps = B * N;
    int4_linear<<<(warps + 3) / 4, threads>>>(x.data_ptr<float>(), packed.data_ptr<int64_t>(), scale.data_ptr<float>(), zero.data_ptr<float>(),
        y.data_ptr<float>(), B, K, N, scale.size(1));
    return y;
}
"""

cpp_source = "torch::Tensor int4_linear_forward(torch::Tensor x, torch::Tensor packed, torch::Tensor scale, torch::Tensor zero);"

ext = load_inline(
    name="int4_linear_forward_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["int4_linear_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, x, packed, scale, zero):
        return ext.int4_linear_forward(x.contiguous(), packed.contiguous(), scale.contiguous(), zero.contiguous())
