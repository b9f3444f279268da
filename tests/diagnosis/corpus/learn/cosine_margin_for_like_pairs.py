# about = "The margin is subtracted from the loss of like pairs as well."
# section = "mismatch"
# problem = "cosine_pairs"
# causes = ["constant-added", "weight-wrong-place", "clamp-bounds"]
# says = ["margin|constant|subtract|0\\.1|add|offset"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__global__ void pairs_kernel(const float* a, const float* b, const float* like, float* out, int pairs, int width, float margin) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    float ab = 0.f, aa = 1e-12f, bb = 1e-12f;
    for (int c = 0; c < width; ++c) {
        float u = a[i * width + c];
        float v = b[i * width + c];
        ab += u * v;
        aa += u * u;
        bb += v * v;
    }
    float similarity = ab / sqrtf(aa * bb);
    float distance = 0.f;
    if (like[i] == 1.f) distance = fmaxf(1.f - similarity - margin, 0.f);
    if (like[i] == -1.f) distance = fmaxf(similarity - margin, 0.f);
    out[i] = distance;
}

torch::Tensor pairs(torch::Tensor a, torch::Tensor b, torch::Tensor like, double margin) {
    auto out = torch::empty({a.size(0)}, a.options());
    int n = a.size(0);
    pairs_kernel<<<(n + 127) / 128, 128>>>(a.data_ptr<float>(), b.data_ptr<float>(), like.data_ptr<float>(),
                                         out.data_ptr<float>(), n, a.size(1), static_cast<float>(margin));
    return out;
}
"""

ops = load_inline("cosine_pairs_ext", cpp_sources="torch::Tensor pairs(torch::Tensor a, torch::Tensor b, torch::Tensor like, double margin);",
                  cuda_sources=CUDA, functions=["pairs"])


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, like):
        return ops.pairs(a.contiguous(), b.contiguous(), like.contiguous(), self.margin)
