# about = "The two matrices are in each other's place."
# section = "mismatch"
# problem = "triangles"
# causes = ["operands-swapped"]
# says = ["swap|exchang|operand|place|input"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
template <typename Pick>
__global__ void combine(const float* a, const float* b, float* out, int rows, int columns, Pick pick) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= columns || r >= rows) return;
    const int i = (blockIdx.z * rows + r) * columns + c;
    out[i] = pick(r, c, a[i], b[i]);
}

struct Triangles {
    __device__ float operator()(int r, int c, float a, float b) const {
        if (c < r) return b;
        return c - r > 1 ? a : 0.f;
    }
};

torch::Tensor triangles(torch::Tensor a, torch::Tensor b) {
    auto out = torch::empty_like(a);
    const int rows = a.size(1), columns = a.size(2);
    const dim3 block(16, 4), grid((columns + 15) / 16, (rows + 3) / 4, a.size(0));
    combine<<<grid, block>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), rows, columns, Triangles());
    return out;
}
"""

module = load_inline(
    name="combine_triangles",
    cpp_sources="torch::Tensor triangles(torch::Tensor a, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["triangles"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.triangles(x.contiguous(), y.contiguous())
