# about = "The output padding is not in the size of the output."
# section = "run"
# problem = "convt2d_uneven"
# causes = ["wrong-shape", "output-size", "padding-ignored"]
# says = ["output.?padding|size|shape"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="deconv2d",
    cpp_sources="torch::Tensor deconv2d(torch::Tensor x, torch::Tensor w, torch::Tensor b, int sh, int sw, int ph, int pw);",
    cuda_sources=r"""
__global__ void deconv2d_kernel(const float* x, const float* w, const float* b, float* y, int N, int IC, int OC, int H, int W,
                                int OH, int OW, int KH, int KW, int sh, int sw, int ph, int pw) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * OC * OH * OW) return;
    int ow = idx % OW, oh = idx / OW % OH, oc = idx / (OW * OH) % OC, n = idx / (OW * OH * OC);
    float acc = b[oc];
    for (int kh = 0; kh < KH; ++kh) {
        int th = oh + ph - kh;
        if (th < 0 || th % sh != 0 || th / sh >= H) continue;
        for (int kw = 0; kw < KW; ++kw) {
            int tw = ow + pw - kw;
            if (tw < 0 || tw % sw != 0 || tw / sw >= W) continue;
            for (int ic = 0; ic < IC; ++ic)
                acc += x[((n * IC + ic) * H + th / sh) * W + tw / sw] * w[((ic * OC + oc) * KH + kh) * KW + kw];
        }
    }
    y[idx] = acc;
}

torch::Tensor deconv2d(torch::Tensor x, torch::Tensor w, torch::Tensor b, int sh, int sw, int ph, int pw) {
    int N = x.size(0), IC = x.size(1), H = x.size(2), W = x.size(3), OC = w.size(1), KH = w.size(2), KW = w.size(3);
    int OH = (H - 1) * sh - 2 * ph + KH, OW = (W - 1) * sw - 2 * pw + KW;
    auto y = torch::empty({N, OC, OH, OW}, x.options());
    int total = y.numel();
    deconv2d_kernel<<<(total + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
        N, IC, OC, H, W, OH, OW, KH, KW, sh, sw, ph, pw);
    return y;
}
""",
    functions=["deconv2d"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inner, outer, (3, 4), stride=(2, 3), padding=(1, 0), output_padding=(1, 2))

    def forward(self, x):
        return ext.deconv2d(x.contiguous(), self.conv.weight, self.conv.bias, 2, 3, 1, 0)
