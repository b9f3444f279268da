# about = "The hinge is not squared."
# section = "mismatch"
# problem = "hinge_squared"
# causes = ["square-omitted", "operator-missing"]
# says = ["squar"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void hinge_partial(const float4* p, const float4* l, const float* p_tail, const float* l_tail,
                              float* sums, int vectors, int tail, float margin) {
    __shared__ float cache[128];
    float s = 0.f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += blockDim.x * gridDim.x) {
        float4 a = p[i], b = l[i];
        s += fmaxf(margin - a.x * b.x, 0.f) + fmaxf(margin - a.y * b.y, 0.f);
        s += fmaxf(margin - a.z * b.z, 0.f) + fmaxf(margin - a.w * b.w, 0.f);
    }
    if (blockIdx.x == 0 && threadIdx.x < tail) s += fmaxf(margin - p_tail[threadIdx.x] * l_tail[threadIdx.x], 0.f);
    cache[threadIdx.x] = s;
    __syncthreads();
    for (int k = 64; k > 0; k /= 2) {
        if (threadIdx.x < k) cache[threadIdx.x] += cache[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = cache[0];
}

__global__ void hinge_final(const float* sums, float* out, int blocks, int n) {
    float s = 0.f;
    for (int b = 0; b < blocks; ++b) s += sums[b];
    out[0] = s / n;
}

torch::Tensor hinge(torch::Tensor p, torch::Tensor l, double margin) {
    int n = p.numel(), vectors = n / 4, tail = n % 4, blocks = 2;
    auto sums = torch::empty({blocks}, p.options()), out = torch::empty({}, p.options());
    const float* pp = p.data_ptr<float>();
    const float* lp = l.data_ptr<float>();
    hinge_partial<<<blocks, 128>>>((const float4*)pp, (const float4*)lp, pp + 4 * vectors, lp + 4 * vectors,
                                   sums.data_ptr<float>(), vectors, tail, (float)margin);
    hinge_final<<<1, 1>>>(sums.data_ptr<float>(), out.data_ptr<float>(), blocks, n);
    return out;
}
"""

hinge = load_inline(
    name="hinge",
    cpp_sources="torch::Tensor hinge(torch::Tensor p, torch::Tensor l, double margin);",
    cuda_sources=cuda_source,
    functions=["hinge"],
)


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, prediction, label):
        return hinge.hinge(prediction.contiguous(), label.contiguous(), self.margin)
