# about = "Keeps the larger of two values, where the reference keeps the smaller."
# section = "mismatch"
# problem = "cummin_values"
# causes = ["max-for-min"]
# says = ["max"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void running_extreme_kernel(const float* x, float* out, int lines, int length) {
    int line = blockIdx.x * blockDim.x + threadIdx.x;
    if (line < lines) {
        float current = x[line * length];
        out[line * length] = current;
        for (int k = 1; k < length; k++) {
            float candidate = x[line * length + k];
            current = candidate > current ? candidate : current;
            out[line * length + k] = current;
        }
    }
}

torch::Tensor running_extreme(torch::Tensor x) {
    auto out = torch::empty_like(x);
    int length = x.size(2);
    int lines = x.size(0) * x.size(1);
    const int block_size = 64;
    const int num_blocks = (lines + block_size - 1) / block_size;
    running_extreme_kernel<<<num_blocks, block_size>>>(x.data_ptr<float>(), out.data_ptr<float>(), lines, length);
    return out;
}
"""

cpp_src = """
torch::Tensor running_extreme(torch::Tensor x);
"""

running = load_inline(
    name="running_extreme",
    cpp_sources=cpp_src,
    cuda_sources=cuda_src,
    functions=["running_extreme"],
    verbose=True,
)


class ModelNew(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.running = running

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.running.running_extreme(x.contiguous())
