# about = "The lengths are read as 32-bit integers, although they have 64 bits."
# section = "mismatch"
# problem = "last_valid_step"
# causes = ["data-ptr-type", "layout-misread", "index-ignored", "type-mismatch", "index-off-by-one", "wrong-dtype", "truncated-to-integer", "global-out-of-bounds-read"]
# says = ["int|32|64|length|index|type|stride|bits|out of bounds|past"]
# stage = ["verify", "run"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

last_source = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__global__ void last_step_kernel(const float* __restrict__ states, const int* __restrict__ lengths,
                                 float* __restrict__ out, int length, int width, float eps) {
    const int b = blockIdx.x;
    const int lane = threadIdx.x;
    const int step = max(lengths[b] - 1, 0);
    const float* row = states + ((size_t)b * length + step) * width;
    float sum = 0.0f;
    for (int i = lane; i < width; i += 32) sum += row[i] * row[i];
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    const float norm = fmaxf(sqrtf(sum), eps);
    for (int i = lane; i < width; i += 32) out[(size_t)b * width + i] = row[i] / norm;
}

torch::Tensor last_step(torch::Tensor states, torch::Tensor lengths) {
    const int batch = states.size(0), length = states.size(1), width = states.size(2);
    auto out = torch::empty({batch, width}, states.options());
    last_step_kernel<<<batch, 32>>>(
        states.data_ptr<float>(),
        reinterpret_cast<const int*>(lengths.data_ptr()),
        out.data_ptr<float>(), length, width, 1e-12f);
    return out;
}
"""

last_ext = load_inline(
    name="last_step_ext",
    cpp_sources="torch::Tensor last_step(torch::Tensor states, torch::Tensor lengths);",
    cuda_sources=last_source,
    functions=["last_step"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, states, lengths):
        return last_ext.last_step(states.contiguous(), lengths.contiguous())
