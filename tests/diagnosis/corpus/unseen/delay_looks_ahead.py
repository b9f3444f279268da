# about = "The delay is added to the place, so that each channel is advanced by it."
# section = "mismatch"
# problem = "fractional_delay"
# causes = ["sign-error", "wrong-coordinate"]
# says = ["sign|negat|coordinate|place|add|ahead|other way|direction|plus"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

delay_src = r"""
#include <torch/extension.h>
__global__ void delay_kernel(const float* x, const float* delay, float* y, int channels, int length) {
    int row = blockIdx.x;
    float shift = delay[row % channels];
    const float* src = x + row * length;
    float* dst = y + row * length;
    for (int t = threadIdx.x; t < length; t += blockDim.x) {
        float place = fminf(fmaxf(t + shift, 0.0f), (float)(length - 1));
        int left = (int)floorf(place);
        int right = min(left + 1, length - 1);
        float part = place - (float)left;
        dst[t] = src[left] * (1.0f - part) + src[right] * part;
    }
}

torch::Tensor delay_forward(torch::Tensor x, torch::Tensor delay) {
    TORCH_CHECK(x.is_contiguous() && delay.is_contiguous());
    auto y = torch::empty_like(x);
    delay_kernel<<<x.size(0) * x.size(1), 64>>>(x.data_ptr<float>(), delay.data_ptr<float>(), y.data_ptr<float>(),
                                                x.size(1), x.size(2));
    return y;
}
"""

delay_ext = load_inline(
    name="delay_ext",
    cpp_sources="torch::Tensor delay_forward(torch::Tensor x, torch::Tensor delay);",
    cuda_sources=delay_src,
    functions=["delay_forward"],
)


class ModelNew(nn.Module):
    def forward(self, x, delay):
        return delay_ext.delay_forward(x.contiguous(), delay.contiguous())
