# about = "Distances are squared: the root is left out."
# section = "mismatch"
# problem = "triplet"
# causes = ["root-omitted"]
# says = ["root|sqrt|squar"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda = r"""
__device__ __forceinline__ float all_lanes(float v) {
    #pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__global__ void triplet_kernel(const float* a, const float* p, const float* n, float* loss, int rows, int width, float margin) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float ap = 0.f, an = 0.f, pn = 0.f;
    for (int c = lane; c < width; c += 32) {
        const float x = a[row * width + c], y = p[row * width + c], z = n[row * width + c];
        ap += (x - y + 1e-6f) * (x - y + 1e-6f);
        an += (x - z + 1e-6f) * (x - z + 1e-6f);
        pn += (y - z + 1e-6f) * (y - z + 1e-6f);
    }
    ap = all_lanes(ap);
    an = all_lanes(an);
    pn = all_lanes(pn);
    if (lane == 0) loss[row] = fmaxf(margin + ap - fminf(an, pn), 0.f);
}

torch::Tensor triplet(torch::Tensor a, torch::Tensor p, torch::Tensor n, double margin) {
    const int rows = a.size(0);
    auto loss = torch::empty({rows}, a.options());
    triplet_kernel<<<(rows + 3) / 4, 128>>>(a.data_ptr<float>(), p.data_ptr<float>(), n.data_ptr<float>(),
                                          loss.data_ptr<float>(), rows, a.size(1), (float)margin);
    return loss;
}
"""

ext = load_inline(name="triplet_ext", cpp_sources="torch::Tensor triplet(torch::Tensor a, torch::Tensor p, torch::Tensor n, double margin);",
                  cuda_sources=cuda, functions=["triplet"])


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive, negative):
        return ext.triplet(anchor.contiguous(), positive.contiguous(), negative.contiguous(), self.margin)
