# about = "The gate is the sigmoid of the difference without the difference, and the scale is left out."
# section = "mismatch"
# problem = "ema_gate"
# faults = [{causes = ["wrong-activation", "weight-wrong-place", "scale-missing", "operator-missing"], says = ["sigmoid|silu|swish|activation"]}, {causes = ["weight-ignored", "affine-ignored", "scale-missing", "operator-missing", "stale-default-parameter"], says = ["scale|weight|factor|parameter"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
__global__ void gate_fwd(const float* x, const float* h0, const float* logit, float* y, float* hn, int B, int T, int C) {
    const int b = blockIdx.x;
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        const float k = 1.0f / (1.0f + expf(-logit[c]));
        float h = h0[b * C + c];
        for (int t = 0; t < T; ++t) {
            const float v = x[(b * T + t) * C + c];
            h = h * k + v * (1.0f - k);
            const float d = v - h;
            y[(b * T + t) * C + c] = 1.0f / (1.0f + expf(-d));
        }
        hn[b * C + c] = h;
    }
}

std::tuple<torch::Tensor, torch::Tensor> gate(torch::Tensor x, torch::Tensor h0, torch::Tensor logit, torch::Tensor scale) {
    auto y = torch::zeros_like(x);
    auto hn = torch::zeros_like(h0);
    gate_fwd<<<x.size(0), 32>>>(x.data_ptr<float>(), h0.data_ptr<float>(), logit.data_ptr<float>(), y.data_ptr<float>(),
                                hn.data_ptr<float>(), x.size(0), x.size(1), x.size(2));
    return {y, hn};
}
"""

gate_op = load_inline(
    name="gate_op",
    cpp_sources="#include <tuple>\nstd::tuple<torch::Tensor, torch::Tensor> gate(torch::Tensor x, torch::Tensor h0, torch::Tensor logit, torch::Tensor scale);",
    cuda_sources=cuda_src,
    functions=["gate"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super(ModelNew, self).__init__()
        self.logit = nn.Parameter(torch.linspace(-1.0, 2.0, channels))
        self.scale = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x, start):
        return gate_op.gate(x.contiguous(), start.contiguous(), self.logit, self.scale)
