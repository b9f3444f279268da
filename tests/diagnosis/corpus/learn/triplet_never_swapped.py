# about = "The distance from the positive to the negative is not considered: swap is left out."
# section = "mismatch"
# problem = "triplet"
# causes = ["operator-missing", "max-for-min"]
# says = ["swap|positive|min"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

triplet_source = r"""
__global__ void triplet_margin_kernel(const float* __restrict__ anchor, const float* __restrict__ positive,
                                      const float* __restrict__ negative, float* __restrict__ out,
                                      int batch, int dim, float margin) {
    extern __shared__ float sm[];
    float* sp = sm;
    float* sn = sm + blockDim.x;
    int b = blockIdx.x;
    int t = threadIdx.x;
    float dp = 0.0f, dn = 0.0f;
    for (int i = t; i < dim; i += blockDim.x) {
        float x = anchor[b * dim + i];
        float u = x - positive[b * dim + i] + 1e-6f;
        float w = x - negative[b * dim + i] + 1e-6f;
        dp += u * u;
        dn += w * w;
    }
    sp[t] = dp;
    sn[t] = dn;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) {
            sp[t] += sp[t + s];
            sn[t] += sn[t + s];
        }
        __syncthreads();
    }
    if (t == 0) out[b] = fmaxf(sqrtf(sp[0]) - sqrtf(sn[0]) + margin, 0.0f);
}

torch::Tensor triplet_margin(torch::Tensor anchor, torch::Tensor positive, torch::Tensor negative, double margin) {
    int batch = anchor.size(0), dim = anchor.size(1);
    auto out = torch::empty({batch}, anchor.options());
    const int threads = 32;
    triplet_margin_kernel<<<batch, threads, 2 * threads * sizeof(float)>>>(anchor.data_ptr<float>(),
        positive.data_ptr<float>(), negative.data_ptr<float>(), out.data_ptr<float>(), batch, dim, (float)margin);
    return out;
}
"""

triplet_margin = load_inline(
    name="triplet_margin",
    cpp_sources="torch::Tensor triplet_margin(torch::Tensor anchor, torch::Tensor positive, torch::Tensor negative, double margin);",
    cuda_sources=triplet_source,
    functions=["triplet_margin"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive, negative):
        return triplet_margin.triplet_margin(anchor.contiguous(), positive.contiguous(), negative.contiguous(), self.margin)
