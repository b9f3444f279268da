# about = "The bias is added after the ReLU."
# section = "mismatch"
# problem = "convt3d_relu"
# causes = ["activation-order"]
# says = ["bias|order|after|before|relu"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="convt3d_relu",
    cpp_sources="torch::Tensor convt3d_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__global__ void convt3d_relu_kernel(const float* x, const float* w, const float* b, float* y, int IC, int OC, int D, int H, int W) {
    int OD = 2 * D, OH = 2 * H, OW = 2 * W;
    int n = blockIdx.y, oc = blockIdx.x;
    for (int v = threadIdx.x; v < OD * OH * OW; v += blockDim.x) {
        int ow = v % OW, oh = v / OW % OH, od = v / (OW * OH);
        float s = 0.f;
        for (int kd = 0; kd < 3; ++kd) {
            int d = od + 1 - kd;
            if (d & 1 || d < 0 || d / 2 >= D) continue;
            for (int kh = 0; kh < 3; ++kh) {
                int h = oh + 1 - kh;
                if (h & 1 || h < 0 || h / 2 >= H) continue;
                for (int kw = 0; kw < 3; ++kw) {
                    int c = ow + 1 - kw;
                    if (c & 1 || c < 0 || c / 2 >= W) continue;
                    for (int ic = 0; ic < IC; ++ic)
                        s += x[(((n * IC + ic) * D + d / 2) * H + h / 2) * W + c / 2]
                           * w[(((ic * OC + oc) * 3 + kd) * 3 + kh) * 3 + kw];
                }
            }
        }
        y[((n * OC + oc) * OD * OH * OW) + v] = fmaxf(s, 0.f) + b[oc];
    }
}

torch::Tensor convt3d_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int N = x.size(0), OC = w.size(1), D = x.size(2), H = x.size(3), W = x.size(4);
    auto y = torch::empty({N, OC, 2 * D, 2 * H, 2 * W}, x.options());
    convt3d_relu_kernel<<<dim3(OC, N), 96>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                             x.size(1), OC, D, H, W);
    return y;
}
""",
    functions=["convt3d_relu"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv = nn.ConvTranspose3d(inner, outer, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return ext.convt3d_relu(x.contiguous(), self.conv.weight, self.conv.bias)
