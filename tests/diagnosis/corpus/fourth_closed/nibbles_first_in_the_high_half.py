# about = "Of each pair the first code is in the high half of the byte and the second in the low one."
# section = "mismatch"
# problem = "group_quant4"
# causes = ["layout-misread", "operands-swapped", "weights-swapped", "inverse-permutation", "transposed-operand"]
# says = ["swap|exchang|order|high|low|nibble|half|layout|pair|pack|place|revers"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

quant_cuda = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// one warp per (row, group)
__global__ void quant4_kernel(const float* __restrict__ x, int* __restrict__ packed, float* __restrict__ scales,
                              float* __restrict__ back, int total_groups, int group) {
    int gid = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (gid >= total_groups) return;
    const float* src = x + gid * group;
    float lo = 0.0f, hi = 0.0f;
    for (int i = lane; i < group; i += 32) {
        lo = fminf(lo, src[i]);
        hi = fmaxf(hi, src[i]);
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        lo = fminf(lo, __shfl_xor_sync(0xffffffff, lo, offset));
        hi = fmaxf(hi, __shfl_xor_sync(0xffffffff, hi, offset));
    }
    float scale = (hi - lo) / 15.0f;
    float zero = rintf(-lo / scale);
    if (lane == 0) scales[gid] = scale;
    // each lane packs one pair
    for (int i = lane; i < group / 2; i += 32) {
        float a = fminf(fmaxf(rintf(src[2 * i] / scale) + zero, 0.0f), 15.0f);
        float b = fminf(fmaxf(rintf(src[2 * i + 1] / scale) + zero, 0.0f), 15.0f);
        packed[gid * (group / 2) + i] = ((int)a << 4) | (int)b;
        back[gid * group + 2 * i] = (a - zero) * scale;
        back[gid * group + 2 * i + 1] = (b - zero) * scale;
    }
}

std::vector<torch::Tensor> quant4(torch::Tensor x, int64_t group) {
    int rows = x.size(0), cols = x.size(1);
    int total_groups = rows * cols / group;
    auto packed = torch::empty({rows, cols / 2}, x.options().dtype(torch::kInt32));
    auto scales = torch::empty({rows, cols / group}, x.options());
    auto back = torch::empty_like(x);
    int threads = 128;
    int blocks = (total_groups * 32 + threads - 1) / threads;
    quant4_kernel<<<blocks, threads, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), packed.data_ptr<int>(), scales.data_ptr<float>(), back.data_ptr<float>(), total_groups, (int)group);
    return {packed, scales, back};
}
"""

quant_cpp = "#include <vector>\nstd::vector<torch::Tensor> quant4(torch::Tensor x, int64_t group);"

quant = load_inline(name="quant4_ext", cpp_sources=quant_cpp, cuda_sources=quant_cuda, functions=["quant4"], verbose=False)


class ModelNew(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group = group

    def forward(self, x):
        packed, scales, back = quant.quant4(x.contiguous(), self.group)
        return packed, scales, back
