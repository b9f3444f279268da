# about = "A thread goes on to its next row without setting its sum to zero."
# section = "mismatch"
# problem = "exclusive_cumsum"
# causes = ["scan-not-reset", "wrong-initial-state"]
# says = ["row|reset|carr|previous|earlier"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

exclusive_src = """
#include <torch/extension.h>

__global__ void exclusive_kernel(const float* input, float* output, int rows, int cols) {
    float running = 0.0f;
    int stride = gridDim.x * blockDim.x;
    for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += stride) {
        const float* in = input + row * cols;
        float* out = output + row * cols;
        for (int c = 0; c < cols; c++) {
            out[c] = running;
            running += in[c];
        }
    }
}

torch::Tensor exclusive_forward(torch::Tensor input) {
    auto output = torch::empty_like(input);
    int rows = input.size(0);
    int cols = input.size(1);
    exclusive_kernel<<<1, 2>>>(input.data_ptr<float>(), output.data_ptr<float>(), rows, cols);
    return output;
}
"""

exclusive_cpp = "torch::Tensor exclusive_forward(torch::Tensor input);"

exclusive = load_inline(
    name="exclusive",
    cpp_sources=exclusive_cpp,
    cuda_sources=exclusive_src,
    functions=["exclusive_forward"],
    verbose=False,
    extra_cflags=[""],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        self.exclusive = exclusive

    def forward(self, x):
        return self.exclusive.exclusive_forward(x.contiguous())
