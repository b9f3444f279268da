# about = "The bias is left out, and the square of the sine is not divided by the rate."
# section = "mismatch"
# problem = "vocoder_up"
# faults = [{causes = ["bias-missing"], says = ["bias"]}, {causes = ["scale-missing", "wrong-divisor", "operator-missing", "wrong-activation", "weight-ignored"], says = ["divis|divid|rate|scale|factor|activation|snake|weight|operator"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

__global__ void tconv1d(const float* x, const float* w, const float* rate, float* out, int B, int Ci, int Co, int Li, int Lo) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < B * Co * Lo; i += blockDim.x * gridDim.x) {
        int pos = i % Lo;
        int co = (i / Lo) % Co;
        int b = i / (Lo * Co);
        float v = 0.0f;
        for (int li = 0; li < Li; li++) {
            int k = pos + 1 - li * 3;
            if (k >= 0 && k < 5) {
                for (int ci = 0; ci < Ci; ci++) v += x[(b * Ci + ci) * Li + li] * w[(ci * Co + co) * 5 + k];
            }
        }
        float s = sinf(rate[co] * v);
        out[i] = v + s * s;
    }
}

torch::Tensor tconv1d_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor rate) {
    int B = x.size(0), Ci = x.size(1), Li = x.size(2), Co = w.size(1);
    int Lo = (Li - 1) * 3 - 2 * 1 + 5 + 1;
    auto out = torch::zeros({B, Co, Lo}, x.options());
    tconv1d<<<3, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), rate.data_ptr<float>(), out.data_ptr<float>(), B, Ci, Co, Li, Lo);
    return out;
}
"""

tconv = load_inline(
    name="tconv1d_snake",
    cpp_sources="torch::Tensor tconv1d_cuda(torch::Tensor x, torch::Tensor w, torch::Tensor rate);",
    cuda_sources=cuda_src,
    functions=["tconv1d_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.up = nn.ConvTranspose1d(inner, outer, 5, stride=3, padding=1, output_padding=1)
        self.rate = nn.Parameter(torch.rand(outer) * 1.5 + 0.5)

    def forward(self, x):
        return tconv.tconv1d_cuda(x.contiguous(), self.up.weight, self.rate)
