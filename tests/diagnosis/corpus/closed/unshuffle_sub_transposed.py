# about = "Row and column within a block are exchanged in the channel's number."
# section = "mismatch"
# problem = "pixel_unshuffle"
# causes = ["layout-misread", "wrong-channel", "coordinates-swapped"]
# says = ["channel|layout|order|swap|exchang|transpos|row|column"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="unshuffle",
    cpp_sources="torch::Tensor unshuffle(torch::Tensor x, int64_t r);",
    cuda_sources=r"""
// Reads along the input's rows and scatters.
__global__ void unshuffle_kernel(const float* x, float* y, int C, int H, int W, int r) {
    int row = blockIdx.x, plane = blockIdx.y;
    int n = plane / C, c = plane % C;
    int h = H / r, w = W / r;
    for (int col = threadIdx.x; col < W; col += blockDim.x) {
        int channel = c * r * r + (col % r) * r + row % r;
        long to = (((long)n * C * r * r + channel) * h + row / r) * w + col / r;
        y[to] = x[((long)plane * H + row) * W + col];
    }
}

torch::Tensor unshuffle(torch::Tensor x, int64_t r) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto y = torch::empty({N, C * r * r, H / r, W / r}, x.options());
    unshuffle_kernel<<<dim3(H, N * C), 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), C, H, W, r);
    return y;
}
""",
    functions=["unshuffle"],
)


class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.r = factor

    def forward(self, x):
        return ext.unshuffle(x.contiguous(), self.r)
