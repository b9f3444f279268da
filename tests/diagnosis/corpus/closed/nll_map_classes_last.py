# about = "Likelihoods are read as if the classes came last."
# section = "mismatch"
# problem = "nll_map"
# causes = ["layout-misread", "wrong-axis", "wrong-channel"]
# says = ["layout|class|channel|stride|order|dim|ind|axis"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

nll = load_inline(
    name="nll_map",
    cpp_sources="""
torch::Tensor nll_forward(torch::Tensor logp, torch::Tensor target, torch::Tensor weight, int64_t ignore_index);
""",
    cuda_sources=r"""
__global__ void nll_kernel(const float* __restrict__ logp, const int64_t* __restrict__ target,
                           const float* __restrict__ weight, float* __restrict__ out,
                           int pixels, int classes, int ignore_index) {
    const int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    const int t = static_cast<int>(target[p]);
    float loss = 0.0f;
    if (t != ignore_index) {
        loss = -weight[t] * logp[p * classes + t];
    }
    out[p] = loss;
}

torch::Tensor nll_forward(torch::Tensor logp, torch::Tensor target, torch::Tensor weight, int64_t ignore_index) {
    TORCH_CHECK(logp.dim() == 4 && target.dim() == 3, "expected [N, C, H, W] and [N, H, W]");
    auto out = torch::empty(target.sizes(), logp.options());
    const int pixels = target.numel();
    const int threads = 128;
    nll_kernel<<<(pixels + threads - 1) / threads, threads>>>(
        logp.data_ptr<float>(), target.data_ptr<int64_t>(), weight.data_ptr<float>(), out.data_ptr<float>(),
        pixels, logp.size(1), static_cast<int>(ignore_index));
    return out;
}
""",
    functions=["nll_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, ignored):
        super().__init__()
        self.register_buffer("weight", torch.rand(classes) + 0.5)
        self.ignored = ignored

    def forward(self, likelihood, target):
        return nll.nll_forward(likelihood.contiguous(), target.contiguous(), self.weight, self.ignored)
