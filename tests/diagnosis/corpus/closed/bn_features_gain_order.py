# about = "The gain is applied before the SiLU, and the affine weight is read by the row."
# section = "mismatch"
# problem = "bn_features_silu"
# faults = [{causes = ["activation-order"], says = ["before|order|after|gain|inside"]}, {causes = ["affine-per-group", "wrong-axis", "layout-misread", "wrong-channel"], says = ["weight|gamma|affine|row|ind"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

bn = load_inline(
    name="bn_feature_gain",
    cpp_sources="torch::Tensor bn_feature_gain(torch::Tensor x, torch::Tensor g, torch::Tensor m, torch::Tensor v, torch::Tensor w, torch::Tensor b);",
    cuda_sources=r"""
__global__ void bn_feature_gain_kernel(const float* x, const float* g, const float* m, const float* v, const float* w,
                                       const float* b, float* y, int features) {
    int r = blockIdx.x;
    const float* in = x + r * features;
    float* out = y + r * features;
    float gain = g[r];
    for (int f = threadIdx.x; f < features; f += blockDim.x) {
        float h = (in[f] - m[f]) / sqrtf(v[f] + 1e-3f);
        h = (h * w[r] + b[f]) * gain;
        out[f] = h / (1.f + expf(-h));
    }
}

torch::Tensor bn_feature_gain(torch::Tensor x, torch::Tensor g, torch::Tensor m, torch::Tensor v, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    bn_feature_gain_kernel<<<x.size(0), 32>>>(x.data_ptr<float>(), g.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(),
                                              w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["bn_feature_gain"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features, eps=1e-3)

    def forward(self, x, gain):
        n = self.norm
        return bn.bn_feature_gain(x.contiguous(), gain.contiguous(), n.running_mean, n.running_var, n.weight, n.bias)
