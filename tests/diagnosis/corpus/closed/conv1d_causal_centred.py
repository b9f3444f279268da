# about = "The filter is centred: half of the padding is on the right."
# section = "mismatch"
# problem = "conv1d_causal_grouped"
# causes = ["padding-off-by-one", "padding-ignored", "padding-sides-swapped"]
# says = ["pad|shift|left|causal|centr|offset"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="causal_conv1d",
    cpp_sources="torch::Tensor causal_conv1d(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t dilation, int64_t groups);",
    cuda_sources=r"""
__global__ void causal_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
                              float* __restrict__ y, int ic, int oc, int len, int taps, int dilation, int groups) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int o = blockIdx.y;
    int n = blockIdx.z;
    if (t >= len) return;
    int per = ic / groups;
    int first = o / (oc / groups) * per;
    int pad = dilation * (taps - 1) / 2;
    float acc = b[o];
    for (int c = 0; c < per; ++c) {
        const float* row = x + (n * ic + first + c) * len;
        for (int k = 0; k < taps; ++k) {
            int s = t - pad + k * dilation;
            if (s >= 0 && s < len) acc += row[s] * w[(o * per + c) * taps + k];
        }
    }
    y[(n * oc + o) * len + t] = acc;
}

torch::Tensor causal_conv1d(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t dilation, int64_t groups) {
    auto y = torch::empty({x.size(0), w.size(0), x.size(2)}, x.options());
    dim3 block(64), grid((x.size(2) + 63) / 64, w.size(0), x.size(0));
    causal_kernel<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1),
                                   w.size(0), x.size(2), w.size(2), dilation, groups);
    return y;
}
""",
    functions=["causal_conv1d"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups, dilation):
        super().__init__()
        self.groups, self.dilation = groups, dilation
        self.conv = nn.Conv1d(inner, outer, 3, dilation=dilation, groups=groups)

    def forward(self, x):
        return ext.causal_conv1d(x.contiguous(), self.conv.weight, self.conv.bias, self.dilation, self.groups)
