# about = "The filter of 5 rows and 3 columns is read as one of 3 rows and 5 columns laid out the other way round."
# section = "mismatch"
# problem = "conv2d_grouped_tall"
# causes = ["transposed-filter", "layout-misread"]
# says = ["transpos|filter|kernel|axes|exchang|layout"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="grouped_conv",
    cpp_sources="torch::Tensor grouped_conv(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups);",
    cuda_sources=r"""
__global__ void grouped_conv_kernel(const float* x, const float* w, const float* b, float* y, int N, int IC, int OC, int H, int W,
                                    int KH, int KW, int OH, int OW, int groups) {
    int ow = threadIdx.x, oh = blockIdx.x * blockDim.y + threadIdx.y;
    int oc = blockIdx.y, n = blockIdx.z;
    if (ow >= OW || oh >= OH) return;
    int icg = IC / groups, g = oc / (OC / groups);
    float acc = b[oc];
    for (int i = 0; i < icg; ++i)
        for (int kh = 0; kh < KH; ++kh)
            for (int kw = 0; kw < KW; ++kw) {
                int ih = oh * 2 - 2 + kh, iw = ow - 1 + kw;
                if (ih < 0 || iw < 0 || ih >= H || iw >= W) continue;
                float v = x[((n * IC + g * icg + i) * H + ih) * W + iw];
                acc += v * w[(oc * icg + i) * KH * KW + kw * KH + kh];
            }
    y[((n * OC + oc) * OH + oh) * OW + ow] = acc;
}

torch::Tensor grouped_conv(torch::Tensor x, torch::Tensor w, torch::Tensor b, int groups) {
    int N = x.size(0), IC = x.size(1), H = x.size(2), W = x.size(3), OC = w.size(0), KH = w.size(2), KW = w.size(3);
    int OH = (H + 4 - KH) / 2 + 1, OW = W + 2 - KW + 1;
    auto y = torch::empty({N, OC, OH, OW}, x.options());
    dim3 block(16, 4), grid((OH + 3) / 4, OC, N);
    grouped_conv_kernel<<<grid, block>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(),
                                         N, IC, OC, H, W, KH, KW, OH, OW, groups);
    return y;
}
""",
    functions=["grouped_conv"],
)


class ModelNew(nn.Module):
    def __init__(self, inner, outer, groups):
        super().__init__()
        self.groups = groups
        self.conv = nn.Conv2d(inner, outer, (5, 3), stride=(2, 1), padding=(2, 1), groups=groups)

    def forward(self, x):
        return ext.grouped_conv(x.contiguous(), self.conv.weight, self.conv.bias, self.groups)
