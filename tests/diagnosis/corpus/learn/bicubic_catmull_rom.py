# about = "The cubic has a = -0.5, where the reference has -0.75."
# section = "mismatch"
# problem = "bicubic_resize"
# causes = ["wrong-coefficient"]
# says = ["coefficient|0\\.75|0\\.5|constant|cubic"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cubic = load_inline(
    name="cubic",
    cpp_sources="torch::Tensor cubic(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=r"""
__device__ float kernel_weight(float t) {
    const float a = -0.5f;
    t = fabsf(t);
    if (t <= 1.f) return ((a + 2.f) * t - (a + 3.f)) * t * t + 1.f;
    if (t < 2.f) return ((a * t - 5.f * a) * t + 8.f * a) * t - 4.f * a;
    return 0.f;
}

__global__ void cubic_kernel(const float* x, float* y, int total, int h, int w, int oh, int ow) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int ox = i % ow, oy = i / ow % oh;
    const float* plane = x + (long)(i / (ow * oh)) * h * w;
    float fy = (oy + 0.5f) * ((float)h / oh) - 0.5f, fx = (ox + 0.5f) * ((float)w / ow) - 0.5f;
    int iy = (int)floorf(fy), ix = (int)floorf(fx);
    float sum = 0.f;
    for (int m = -1; m <= 2; ++m) {
        int r = min(max(iy + m, 0), h - 1);
        float line = 0.f;
        for (int n = -1; n <= 2; ++n) {
            int c = min(max(ix + n, 0), w - 1);
            line += kernel_weight(fx - (ix + n)) * plane[r * w + c];
        }
        sum += kernel_weight(fy - (iy + m)) * line;
    }
    y[i] = sum;
}

torch::Tensor cubic(torch::Tensor x, int64_t oh, int64_t ow) {
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    int total = y.numel();
    cubic_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), total, x.size(2), x.size(3),
                                               oh, ow);
    return y;
}
""",
    functions=["cubic"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return cubic.cubic(x.contiguous(), self.size[0], self.size[1])
