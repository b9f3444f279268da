# about = "The lower triangle keeps the diagonal above the main one's place: offset +1 for -1."
# section = "mismatch"
# problem = "triangles"
# causes = ["mask-shifted", "sign-error"]
# says = ["diagonal|offset|mask|triang|shift"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

tri_cuda = r"""
__global__ void triangles_kernel(const float* x, const float* y, float* out, int rows, int cols, int total) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < total) {
        int col = idx % cols;
        int row = (idx / cols) % rows;
        float value = 0.0f;
        if (col <= row + 1) value += x[idx];
        if (col >= row + 2) value += y[idx];
        out[idx] = value;
    }
}

torch::Tensor triangles_cuda(torch::Tensor x, torch::Tensor y) {
    auto out = torch::empty_like(x);
    int total = x.numel();
    const int block_size = 256;
    const int num_blocks = (total + block_size - 1) / block_size;
    triangles_kernel<<<num_blocks, block_size>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(),
                                                 x.size(1), x.size(2), total);
    return out;
}
"""

triangles = load_inline(
    name="triangles",
    cpp_sources="torch::Tensor triangles_cuda(torch::Tensor x, torch::Tensor y);",
    cuda_sources=tri_cuda,
    functions=["triangles_cuda"],
    verbose=True,
    extra_cflags=[""],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()
        self.triangles = triangles

    def forward(self, x, y):
        return self.triangles.triangles_cuda(x.contiguous(), y.contiguous())
