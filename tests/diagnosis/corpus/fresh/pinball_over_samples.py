# about = "Divides by the number of samples; the reference by the sum of weights."
# section = "mismatch"
# problem = "pinball_weighted"
# causes = ["wrong-divisor", "weight-ignored"]
# says = ["divis|divid|count|weight|factor"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void pinball_kernel(const float* forecast, const float* target, const float* quantiles, const float* weight,
                               float* out, int n, int levels) {
    __shared__ float sums[256], norms[256];
    int t = threadIdx.x;
    float sum = 0.0f, norm = 0.0f;
    for (int i = t; i < n; i += blockDim.x) {
        float loss = 0.0f;
        for (int q = 0; q < levels; ++q) {
            float e = target[i] - forecast[i * levels + q];
            loss += e >= 0.0f ? quantiles[q] * e : (quantiles[q] - 1.0f) * e;
        }
        sum += loss * weight[i];
        norm += weight[i];
    }
    sums[t] = sum;
    norms[t] = norm;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            sums[t] += sums[t + half];
            norms[t] += norms[t + half];
        }
        __syncthreads();
    }
    if (t == 0) out[0] = sums[0] / n;
}

torch::Tensor pinball_loss(torch::Tensor forecast, torch::Tensor target, torch::Tensor quantiles, torch::Tensor weight) {
    auto out = torch::empty({}, forecast.options());
    pinball_kernel<<<1, 256>>>(forecast.data_ptr<float>(), target.data_ptr<float>(), quantiles.data_ptr<float>(),
                               weight.data_ptr<float>(), out.data_ptr<float>(), forecast.size(0), forecast.size(1));
    return out;
}
"""

cpp_source = "torch::Tensor pinball_loss(torch::Tensor forecast, torch::Tensor target, torch::Tensor quantiles, torch::Tensor weight);"

ext = load_inline(
    name="pinball_loss_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["pinball_loss"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, forecast, target, quantiles, weight):
        return ext.pinball_loss(forecast.contiguous(), target.contiguous(), quantiles.contiguous(), weight.contiguous())
