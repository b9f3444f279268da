# about = "Lowest and highest are those of the whole row, not of its group."
# section = "mismatch"
# problem = "group_quant4"
# causes = ["statistics-over-wrong-axes", "groups-ignored", "wrong-axis", "segments-ignored"]
# says = ["group|row|axes|axis|dim|range|statist|segment"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>
#include <tuple>

struct Range { float low, high; };

__device__ Range widen(Range r, float v) { return {fminf(r.low, v), fmaxf(r.high, v)}; }

// Blocks are rows. First a thread per group finds scale and zero point, then a thread per pair of columns encodes.
__global__ void encode(const float* x, int* packed, float* scale, float* back, int columns, int group) {
    extern __shared__ float2 table[];
    const int row = blockIdx.x, groups = columns / group;
    const float* src = x + row * columns;
    for (int g = threadIdx.x; g < groups; g += blockDim.x) {
        Range r{0.f, 0.f};
        for (int i = 0; i < columns; ++i) r = widen(r, src[i]);
        const float step = (r.high - r.low) / 15.f;
        table[g] = make_float2(step, nearbyintf(-r.low / step));
        scale[row * groups + g] = step;
    }
    __syncthreads();
    auto code = [&](int c) {
        const float2 t = table[c / group];
        return min(max(__float2int_rn(src[c] / t.x) + (int)t.y, 0), 15);
    };
    for (int p = threadIdx.x; p < columns / 2; p += blockDim.x) {
        int word = 0;
        for (int half = 0; half < 2; ++half) {
            const int c = 2 * p + half, k = code(c);
            word |= k << 4 * half;
            back[row * columns + c] = (k - table[c / group].y) * table[c / group].x;
        }
        packed[row * (columns / 2) + p] = word;
    }
}

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> pack(torch::Tensor x, int64_t group) {
    const int rows = x.size(0), columns = x.size(1), groups = columns / group;
    auto packed = torch::empty({rows, columns / 2}, x.options().dtype(torch::kInt));
    auto scale = torch::empty({rows, groups}, x.options());
    auto back = torch::empty({rows, columns}, x.options());
    encode<<<rows, 32, groups * sizeof(float2), c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), packed.data_ptr<int>(), scale.data_ptr<float>(), back.data_ptr<float>(), columns, group);
    return {packed, scale, back};
}
"""

packer = load_inline(
    "nibble_packer",
    "#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor, torch::Tensor> pack(torch::Tensor x, int64_t group);",
    SOURCE,
    functions=["pack"],
)


class ModelNew(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group = group

    def forward(self, x):
        return packer.pack(x.contiguous(), self.group)
