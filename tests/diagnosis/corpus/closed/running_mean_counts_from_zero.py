# about = "Divides by the index of the step: by zero for the first, one too few for all others."
# section = "mismatch"
# problem = "running_mean"
# causes = ["wrong-divisor", "divide-by-zero", "overflow-to-nan"]
# says = ["divis|divid|count|zero"]
# stage = ["verify", "run"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <c10/cuda/CUDAStream.h>

__global__ void mean_so_far(const float* __restrict__ x, float* __restrict__ y, int steps, int features) {
    // blockIdx.x is the sample, threadIdx.x the feature.
    const size_t base = (size_t)blockIdx.x * steps * features;
    for (int f = threadIdx.x; f < features; f += blockDim.x) {
        float sum = 0.f;
        size_t at = base + f;
        for (int t = 0; t < steps; ++t, at += features) {
            sum += x[at];
            y[at] = __fdividef(sum, static_cast<float>(t));
        }
    }
}

torch::Tensor mean_so_far_forward(const torch::Tensor& x) {
    TORCH_CHECK(x.dim() == 3, "batch, steps, features");
    auto out = torch::empty_like(x);
    auto stream = c10::cuda::getCurrentCUDAStream();
    mean_so_far<<<x.size(0), 32, 0, stream.stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(),
                                                       static_cast<int>(x.size(1)), static_cast<int>(x.size(2)));
    return out;
}
"""

averaging = load_inline(
    name="mean_so_far",
    cpp_sources="torch::Tensor mean_so_far_forward(const torch::Tensor& x);",
    cuda_sources=source,
    functions=["mean_so_far_forward"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return averaging.mean_so_far_forward(x.contiguous())
