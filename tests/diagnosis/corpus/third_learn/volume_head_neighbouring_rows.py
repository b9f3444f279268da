# about = "The taps in the height lie next to each other; the filter is dilated by two there."
# section = "mismatch"
# problem = "volume_head"
# causes = ["dilation-ignored", "wrong-coordinate"]
# says = ["dilat|tap|apart|spac"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void conv3d_kernel(const float* x, const float* w, const float* bias, float* y, int N, int IC, int OC, int D, int H, int W,
                              int OD, int OH, int OW, int groups) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * OC * OD * OH * OW) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    int od = (idx / (OW * OH)) % OD;
    int oc = (idx / (OW * OH * OD)) % OC;
    int n = idx / (OW * OH * OD * OC);
    int icg = IC / groups, g = oc / (OC / groups);
    float sum = bias[oc];
    for (int ic = 0; ic < icg; ic++)
        for (int kd = 0; kd < 3; kd++)
            for (int kh = 0; kh < 3; kh++)
                for (int kw = 0; kw < 2; kw++) {
                    int d = od - 1 + kd;
                    int h = oh - 2 + kh;
                    int z = ow + kw;
                    if (d < 0 || d >= D || h < 0 || h >= H || z >= W) continue;
                    sum += x[(((n * IC + g * icg + ic) * D + d) * H + h) * W + z] * w[((oc * icg + ic) * 9 + kd * 3 + kh) * 2 + kw];
                }
    y[idx] = fminf(fmaxf(sum, -0.5f), 1.0f);
}

__global__ void adaptive_kernel(const float* x, float* y, int planes, int D, int H, int W, int PD, int PH, int PW) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= planes * PD * PH * PW) return;
    int pw = idx % PW, ph = (idx / PW) % PH, pd = (idx / (PW * PH)) % PD, p = idx / (PW * PH * PD);
    int d0 = pd * D / PD, d1 = ((pd + 1) * D + PD - 1) / PD;
    int h0 = ph * H / PH, h1 = ((ph + 1) * H + PH - 1) / PH;
    int w0 = pw * W / PW, w1 = ((pw + 1) * W + PW - 1) / PW;
    float sum = 0.0f;
    for (int d = d0; d < d1; d++)
        for (int h = h0; h < h1; h++)
            for (int w = w0; w < w1; w++) sum += x[((p * D + d) * H + h) * W + w];
    y[idx] = sum / ((d1 - d0) * (h1 - h0) * (w1 - w0));
}

torch::Tensor volume(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t groups, int64_t PD, int64_t PH, int64_t PW) {
    int N = x.size(0), IC = x.size(1), D = x.size(2), H = x.size(3), W = x.size(4), OC = w.size(0);
    int OD = D, OH = H, OW = W - 1;
    auto mid = torch::empty({N, OC, OD, OH, OW}, x.options());
    auto y = torch::empty({N, OC, PD, PH, PW}, x.options());
    int total = mid.numel();
    conv3d_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), mid.data_ptr<float>(),
                                                N, IC, OC, D, H, W, OD, OH, OW, groups);
    int out = y.numel();
    adaptive_kernel<<<(out + 127) / 128, 128>>>(mid.data_ptr<float>(), y.data_ptr<float>(), N * OC, OD, OH, OW, PD, PH, PW);
    return y;
}
"""

cpp_source = "torch::Tensor volume(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t groups, int64_t PD, int64_t PH, int64_t PW);"
volume = load_inline(name="volume_head", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["volume"])


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups, grid):
        super().__init__()
        self.conv = nn.Conv3d(inner, outer, (3, 3, 2), padding=(1, 2, 0), dilation=(1, 2, 1), groups=groups)
        self.groups = groups
        self.grid = grid

    def forward(self, x):
        return volume.volume(x.contiguous(), self.conv.weight, self.conv.bias, self.groups, *self.grid)
