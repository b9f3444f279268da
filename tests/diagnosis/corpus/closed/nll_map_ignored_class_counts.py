# about = "The ignored class is not ignored."
# section = "mismatch"
# problem = "nll_map"
# causes = ["mask-ignored", "padding-ignored", "index-ignored", "operator-missing"]
# says = ["ignor|mask"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CODE = r"""
__global__ void pixel_nll(const float* logp, const int64_t* target, const float* weight, float* out, int classes, int area) {
    const int n = blockIdx.y;
    const int stride = gridDim.x * blockDim.x;
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < area; p += stride) {
        const int64_t label = target[n * area + p];
        const bool inside = label >= 0 && label < classes;
        out[n * area + p] = inside ? -logp[(n * classes + label) * area + p] * weight[label] : 0.f;
    }
}

torch::Tensor pixel_loss(torch::Tensor logp, torch::Tensor target, torch::Tensor weight) {
    auto out = torch::empty(target.sizes(), logp.options());
    const int area = logp.size(2) * logp.size(3);
    pixel_nll<<<dim3(2, logp.size(0)), 32>>>(logp.data_ptr<float>(), target.data_ptr<int64_t>(), weight.data_ptr<float>(),
                                           out.data_ptr<float>(), logp.size(1), area);
    return out;
}
"""

pixel = load_inline(
    name="pixel_nll",
    cpp_sources="torch::Tensor pixel_loss(torch::Tensor logp, torch::Tensor target, torch::Tensor weight);",
    cuda_sources=CODE,
    functions=["pixel_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, classes, ignored):
        super().__init__()
        self.ignored = ignored
        self.register_buffer("weight", torch.ones(classes))

    def forward(self, likelihood, target):
        return pixel.pixel_loss(likelihood.contiguous(), target.contiguous(), self.weight)
