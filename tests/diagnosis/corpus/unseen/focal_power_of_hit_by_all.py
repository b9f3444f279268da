# about = "Powers of the chance of the label in place of its complement, and divided by the number of elements."
# section = "mismatch"
# problem = "focal_loss"
# faults = [{causes = ["weights-swapped", "weight-wrong-place", "sign-error", "mask-inverted", "wrong-coefficient", "operands-swapped", "wrong-combine"], says = ["complement|1 -|focal|modulat|swap|exchang|hit|gamma|power|chance|probab|place"]}, {causes = ["wrong-divisor", "mean-for-sum", "mask-ignored"], says = ["divis|divid|count|mean|number|positives"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="focal_single_block",
    cpp_sources="torch::Tensor focal(torch::Tensor logits, torch::Tensor target, double alpha, double gamma);",
    cuda_sources=r"""
__inline__ __device__ float softplus(float x) { return x > 0.f ? x + log1pf(expf(-x)) : log1pf(expf(x)); }

__global__ void focal_kernel(const float* logits, const float* target, float* y, int n, float alpha, float gamma) {
    __shared__ float warps[8];
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float x = logits[i];
        bool positive = target[i] > 0.5f;
        float signed_x = positive ? x : -x;
        float chance = 1.f / (1.f + expf(-signed_x));
        float weight = positive ? alpha : 1.f - alpha;
        sum += weight * powf(chance, gamma) * softplus(-signed_x);
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0.f;
        for (int o = 4; o > 0; o >>= 1) sum += __shfl_down_sync(0xffffffff, sum, o);
        if (threadIdx.x == 0) *y = sum / n;
    }
}

torch::Tensor focal(torch::Tensor logits, torch::Tensor target, double alpha, double gamma) {
    auto y = torch::empty({}, logits.options());
    focal_kernel<<<1, 256>>>(logits.data_ptr<float>(), target.data_ptr<float>(), y.data_ptr<float>(),
        (int)logits.numel(), (float)alpha, (float)gamma);
    return y;
}
""",
    functions=["focal"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        return ext.focal(logits.contiguous(), target.contiguous(), self.alpha, self.gamma)
