# about = "The bound of the depth admits one slice too many, which is read past the input's end."
# section = "run"
# problem = "convt3d_relu"
# causes = ["global-out-of-bounds-read"]
# says = ["past|beyond|out of bounds|outside"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>

struct Volume { int c, d, h, w; };

__device__ inline bool source(int out, int k, int size, int& in) {
    int t = out + 1 - k;
    if (t < 0 || (t % 2) != 0) return false;
    in = t / 2;
    return in < size;
}

__global__ void transposed(const float* x, const float* w, const float* b, float* y, Volume in, Volume out, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int ow = i % out.w;
    int oh = (i / out.w) % out.h;
    int od = (i / (out.w * out.h)) % out.d;
    int oc = (i / (out.w * out.h * out.d)) % out.c;
    int n = i / (out.w * out.h * out.d * out.c);
    float acc = b[oc];
    for (int ic = 0; ic < in.c; ++ic) {
        const float* vol = x + (n * in.c + ic) * in.d * in.h * in.w;
        const float* f = w + (ic * out.c + oc) * 27;
        for (int k = 0; k < 27; ++k) {
            int id, ih, iw;
            if (source(od, k / 9, in.d + 1, id) && source(oh, k / 3 % 3, in.h, ih) && source(ow, k % 3, in.w, iw))
                acc += vol[(id * in.h + ih) * in.w + iw] * f[k];
        }
    }
    y[i] = acc > 0.f ? acc : 0.f;
}

torch::Tensor transposed_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    Volume in{(int)x.size(1), (int)x.size(2), (int)x.size(3), (int)x.size(4)};
    Volume out{(int)w.size(1), 2 * in.d, 2 * in.h, 2 * in.w};
    auto y = torch::empty({x.size(0), out.c, out.d, out.h, out.w}, x.options());
    int total = y.numel();
    transposed<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), in, out, total);
    return y;
}
"""
mod = load_inline(name="transposed_relu", cpp_sources="torch::Tensor transposed_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b);", cuda_sources=code, functions=["transposed_relu"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.ConvTranspose3d(inner, outer, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return mod.transposed_relu(x.contiguous(), self.conv.weight, self.conv.bias)
