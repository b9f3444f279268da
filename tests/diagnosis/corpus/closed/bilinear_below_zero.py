# about = "Places below zero are not set to zero: the border is extrapolated."
# section = "mismatch"
# problem = "bilinear_resize"
# causes = ["clamp-missing", "wrong-coordinate"]
# says = ["clamp|negativ|below|zero|border|edge|extrapol"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
struct Tap {
    int lower, upper;
    float part;
};

__device__ Tap tap(int o, float ratio, int n) {
    float f = (o + 0.5f) * ratio - 0.5f;
    int i = (int)f;
    return {i, i < n - 1 ? i + 1 : i, f - i};
}

__global__ void resize2d(const float* x, float* y, int h, int w, int oh, int ow, float rh, float rw) {
    int ox = blockIdx.x * blockDim.x + threadIdx.x;
    int oy = blockIdx.y * blockDim.y + threadIdx.y;
    if (ox >= ow || oy >= oh) return;
    const float* p = x + (long)blockIdx.z * h * w;
    Tap v = tap(oy, rh, h), u = tap(ox, rw, w);
    float a = p[v.lower * w + u.lower], b = p[v.lower * w + u.upper];
    float c = p[v.upper * w + u.lower], d = p[v.upper * w + u.upper];
    float ab = a + (b - a) * u.part, cd = c + (d - c) * u.part;
    y[((long)blockIdx.z * oh + oy) * ow + ox] = ab + (cd - ab) * v.part;
}

torch::Tensor resize2d_forward(torch::Tensor x, int64_t oh, int64_t ow) {
    int h = x.size(2), w = x.size(3);
    auto y = x.new_empty({x.size(0), x.size(1), oh, ow});
    dim3 block(16, 4);
    dim3 grid((ow + 15) / 16, (oh + 3) / 4, x.size(0) * x.size(1));
    resize2d<<<grid, block>>>(x.data_ptr<float>(), y.data_ptr<float>(), h, w, oh, ow, float(h) / oh, float(w) / ow);
    return y;
}
"""

resize = load_inline(
    name="resize2d",
    cpp_sources="torch::Tensor resize2d_forward(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=CUDA,
    functions=["resize2d_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return resize.resize2d_forward(x.contiguous(), *self.size)
