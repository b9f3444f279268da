# about = "Reads the weights from the other side (t for 1 - t), and the channel of the first sample for all samples."
# section = "mismatch"
# problem = "catmull_sample"
# faults = [{causes = ["weights-swapped", "wrong-coordinate", "sign-error", "operands-swapped"], says = ["weight|swap|exchang|fraction|coordinate|1 -|sign|place"]}, {causes = ["first-batch-only", "index-ignored", "layout-misread"], says = ["batch|sample|first"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="catmull_rom_sample_cuda",
    cpp_sources="torch::Tensor catmull_rom_sample(torch::Tensor signal, torch::Tensor places);",
    cuda_sources=r"""
__device__ __forceinline__ int clampi(int i, int last) { return i < 0 ? 0 : (i > last ? last : i); }

__global__ void catmull_rom(const float* __restrict__ signal, const float* __restrict__ places,
                            float* __restrict__ out, int B, int C, int L, int P) {
    const int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= B * C * P) return;
    const int p = tid % P;
    const int c = (tid / P) % C;
    const int b = tid / (P * C);
    const float pos = places[b * P + p];
    const int i = (int)floorf(pos);
    const float t = 1.0f - (pos - (float)i);
    const float* s = signal + c * L;
    float w0 = 0.5f * (((2.0f - t) * t - 1.0f) * t);
    float w1 = 0.5f * ((3.0f * t - 5.0f) * t * t + 2.0f);
    float w2 = 0.5f * (((4.0f - 3.0f * t) * t + 1.0f) * t);
    float w3 = 0.5f * ((t - 1.0f) * t * t);
    out[tid] = w0 * s[clampi(i - 1, L - 1)] + w1 * s[clampi(i, L - 1)]
             + w2 * s[clampi(i + 1, L - 1)] + w3 * s[clampi(i + 2, L - 1)];
}

torch::Tensor catmull_rom_sample(torch::Tensor signal, torch::Tensor places) {
    const int B = signal.size(0), C = signal.size(1), L = signal.size(2), P = places.size(1);
    auto out = torch::empty({B, C, P}, signal.options());
    const int n = B * C * P;
    catmull_rom<<<(n + 127) / 128, 128>>>(signal.data_ptr<float>(), places.data_ptr<float>(), out.data_ptr<float>(), B, C, L, P);
    return out;
}
""",
    functions=["catmull_rom_sample"],
)


class ModelNew(nn.Module):
    def forward(self, signal, places):
        return ext.catmull_rom_sample(signal.contiguous(), places.contiguous())
