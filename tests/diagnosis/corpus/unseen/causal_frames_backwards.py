# about = "The filter's frames are read backwards: its last frame meets the earliest picture."
# section = "mismatch"
# problem = "conv3d_causal"
# causes = ["flipped-filter"]
# says = ["flip|revers|backward|mirror"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

// grid: (frames, outer, batch); each thread one pixel of the frame
__global__ void video_conv(const float* __restrict__ x, const float* __restrict__ weight,
                           const float* __restrict__ bias, float* __restrict__ y, int inner, int frames, int h,
                           int w) {
    const int t = blockIdx.x, o = blockIdx.y, b = blockIdx.z, outer = gridDim.y;
    __shared__ float taps[27];
    const int p = threadIdx.y * blockDim.x + threadIdx.x;
    const int i = threadIdx.y, j = threadIdx.x;
    float acc = 0.f;
    for (int c = 0; c < inner; ++c) {
        __syncthreads();
        if (p < 27) taps[p] = weight[(o * inner + c) * 27 + p];
        __syncthreads();
        for (int back = 0; back < 3; ++back) {
            const int f = t - back;
            if (f < 0) break;
            const float* frame = x + ((size_t)(b * inner + c) * frames + f) * h * w;
            for (int dy = -1; dy <= 1; ++dy)
                for (int dx = -1; dx <= 1; ++dx) {
                    const int yy = i + dy, xx = j + dx;
                    if (yy < 0 || yy >= h || xx < 0 || xx >= w) continue;
                    acc += taps[back * 9 + (dy + 1) * 3 + dx + 1] * frame[yy * w + xx];
                }
        }
    }
    y[(((size_t)(b * outer + o)) * frames + t) * h * w + p] = acc + bias[o];
}

torch::Tensor causal_conv3d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
    const int batch = x.size(0), inner = x.size(1), frames = x.size(2), h = x.size(3), w = x.size(4);
    const int outer = weight.size(0);
    TORCH_CHECK(h * w <= 1024 && h * w >= 27, "frame size");
    auto y = torch::empty({batch, outer, frames, h, w}, x.options());
    video_conv<<<dim3(frames, outer, batch), dim3(w, h)>>>(x.data_ptr<float>(), weight.data_ptr<float>(),
                                                           bias.data_ptr<float>(), y.data_ptr<float>(), inner, frames,
                                                           h, w);
    return y;
}
"""

causal = load_inline(
    name="causal_conv3d",
    cpp_sources="torch::Tensor causal_conv3d(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=cuda_src,
    functions=["causal_conv3d"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.Conv3d(inner, outer, 3)

    def forward(self, x):
        return causal.causal_conv3d(x.contiguous(), self.conv.weight, self.conv.bias)
