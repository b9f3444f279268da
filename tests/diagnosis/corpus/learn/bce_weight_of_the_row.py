# about = "The weight is chosen by the row's number, not by the label's."
# section = "mismatch"
# problem = "bce_weighted"
# causes = ["wrong-axis", "bias-wrong-index", "affine-per-group", "keepdim-broadcast", "layout-misread", "wrong-channel", "index-ignored"]
# says = ["weight|ind|row|label|axis|dim|channel"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__device__ __forceinline__ float softplus(float v) { return fmaxf(v, 0.f) + log1pf(expf(-fabsf(v))); }

__global__ void loss_kernel(const float* logits, const float* target, const float* positive, float* out, int rows, int labels) {
    __shared__ float warps[8];
    float sum = 0.f;
    const int n = rows * labels;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float x = logits[i], y = target[i];
        const float p = positive[i / labels % labels];
        sum += p * y * softplus(-x) + (1.f - y) * softplus(x);
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.f;
        for (int w = 0; w < blockDim.x / 32; ++w) total += warps[w];
        *out = total / n;
    }
}

torch::Tensor loss(torch::Tensor logits, torch::Tensor target, torch::Tensor positive) {
    auto out = torch::empty({}, logits.options());
    loss_kernel<<<1, 256>>>(logits.data_ptr<float>(), target.data_ptr<float>(), positive.data_ptr<float>(),
                            out.data_ptr<float>(), logits.size(0), logits.size(1));
    return out;
}
"""

module = load_inline("bce_loss", ["torch::Tensor loss(torch::Tensor logits, torch::Tensor target, torch::Tensor positive);"],
                     [CUDA], functions=["loss"])


class ModelNew(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.register_buffer("positive", torch.ones(labels))

    def forward(self, logits, target):
        return module.loss(logits.contiguous(), target.contiguous(), self.positive)
