# about = "The input channel of an output channel is taken modulo the channels; two in a row share one."
# section = "mismatch"
# problem = "conv3d_depthwise"
# causes = ["wrong-channel"]
# says = ["channel"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="dw3d",
    cpp_sources="torch::Tensor dw3d(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__constant__ int STRIDE[3] = {1, 2, 1};
__constant__ int PADS[3] = {0, 1, 1};

__global__ void dw3d_kernel(const float* x, const float* w, const float* b, float* y, int C, int OC, int D, int H, int W,
                            int OD, int OH, int OW) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    int oc = blockIdx.y % OC, n = blockIdx.y / OC;
    if (v >= OD * OH * OW) return;
    int ow = v % OW, oh = (v / OW) % OH, od = v / (OW * OH);
    int c = oc % C;
    const float* vol = x + (n * C + c) * D * H * W;
    float acc = b[oc];
    for (int k = 0; k < 18; ++k) {
        int d = od * STRIDE[0] - PADS[0] + k / 9;
        int h = oh * STRIDE[1] - PADS[1] + k / 3 % 3;
        int c2 = ow * STRIDE[2] - PADS[2] + k % 3;
        if (d < 0 || d >= D || h < 0 || h >= H || c2 < 0 || c2 >= W) continue;
        acc += vol[(d * H + h) * W + c2] * w[oc * 18 + k];
    }
    y[(n * OC + oc) * OD * OH * OW + v] = acc;
}

torch::Tensor dw3d(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    int N = x.size(0), C = x.size(1), D = x.size(2), H = x.size(3), W = x.size(4), OC = w.size(0);
    int OD = D - 1, OH = (H + 2 - 3) / 2 + 1, OW = W;
    auto y = torch::empty({N, OC, OD, OH, OW}, x.options());
    dw3d_kernel<<<dim3((OD * OH * OW + 127) / 128, N * OC), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(),
        y.data_ptr<float>(), C, OC, D, H, W, OD, OH, OW);
    return y;
}
""",
    functions=["dw3d"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv3d(channels, 2 * channels, (2, 3, 3), stride=(1, 2, 1), padding=(0, 1, 1), groups=channels)

    def forward(self, x):
        return ext.dw3d(x.contiguous(), self.conv.weight, self.conv.bias)
