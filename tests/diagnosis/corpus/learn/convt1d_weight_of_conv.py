# about = "The weight is read as that of an ordinary convolution: output channel first."
# section = "mismatch"
# problem = "convt1d_grouped"
# causes = ["transposed-filter", "layout-misread", "transposed-operand"]
# says = ["transpos|layout|weight|filter|channel|exchang"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="convt1d",
    cpp_sources="torch::Tensor convt1d(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int stride, int pad, int dil, int groups);",
    cuda_sources=r"""
__global__ void convt1d_kernel(const float* x, const float* w, const float* bias, float* y, int IC, int OC, int L, int OL, int K,
                               int stride, int pad, int dil, int groups) {
    int ol = blockIdx.x * blockDim.x + threadIdx.x;
    int oc = blockIdx.y, n = blockIdx.z;
    if (ol >= OL) return;
    int icg = IC / groups, ocg = OC / groups;
    int g = oc / ocg, o = oc % ocg;
    float acc = 0.f;
    for (int k = 0; k < K; ++k) {
        int t = ol + pad - k * dil;
        if (t < 0 || t % stride) continue;
        int l = t / stride;
        if (l >= L) continue;
        for (int i = 0; i < icg; ++i)
            acc += x[(n * IC + g * icg + i) * L + l] * w[((g * ocg + o) * icg + i) * K + k];
    }
    y[(n * OC + oc) * OL + ol] = acc + bias[oc];
}

torch::Tensor convt1d(torch::Tensor x, torch::Tensor w, torch::Tensor bias, int stride, int pad, int dil, int groups) {
    int N = x.size(0), IC = x.size(1), L = x.size(2), K = w.size(2), OC = w.size(1) * groups;
    int OL = (L - 1) * stride - 2 * pad + dil * (K - 1) + 1;
    auto y = torch::empty({N, OC, OL}, x.options());
    convt1d_kernel<<<dim3((OL + 31) / 32, OC, N), 32>>>(x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(),
        y.data_ptr<float>(), IC, OC, L, OL, K, stride, pad, dil, groups);
    return y;
}
""",
    functions=["convt1d"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.ConvTranspose1d(inner, outer, 4, stride=2, padding=3, dilation=3, groups=groups)

    def forward(self, x):
        return ext.convt1d(x.contiguous(), self.conv.weight, self.conv.bias, 2, 3, 3, self.groups)
