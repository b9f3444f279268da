# about = "Written as b n h e into a tensor of shape b h n e: heads and rows are exchanged."
# section = "mismatch"
# problem = "heads_projection"
# causes = ["layout-misread", "transposed-operand", "wrong-axis", "coordinates-swapped"]
# says = ["layout|transpos|permut|order|stride|head|exchang|dimension"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

proj_source = r"""
#include <torch/extension.h>
#define TR 4

__global__ void heads_projection_kernel(const float* __restrict__ x, const float* __restrict__ w,
                                        float* __restrict__ out, int N, int D, int H, int E) {
    extern __shared__ float tile[];
    const int b = blockIdx.y;
    const int n0 = blockIdx.x * TR;
    for (int t = threadIdx.x; t < TR * D; t += blockDim.x) {
        const int n = n0 + t / D;
        tile[t] = n < N ? x[((size_t)b * N + n) * D + t % D] : 0.0f;
    }
    __syncthreads();
    for (int he = threadIdx.x; he < H * E; he += blockDim.x) {
        const int h = he / E, e = he % E;
        float acc[TR] = {0.0f, 0.0f, 0.0f, 0.0f};
        for (int d = 0; d < D; ++d) {
            const float wv = w[((size_t)h * D + d) * E + e];
#pragma unroll
            for (int r = 0; r < TR; ++r) acc[r] += tile[r * D + d] * wv;
        }
#pragma unroll
        for (int r = 0; r < TR; ++r) {
            const int n = n0 + r;
            if (n < N) out[((size_t)b * N + n) * H * E + he] = acc[r];
        }
    }
}

torch::Tensor heads_projection(torch::Tensor x, torch::Tensor w) {
    const int B = x.size(0), N = x.size(1), D = x.size(2), H = w.size(0), E = w.size(2);
    auto out = torch::empty({B, H, N, E}, x.options());
    dim3 grid((N + TR - 1) / TR, B);
    heads_projection_kernel<<<grid, 64, TR * D * sizeof(float)>>>(x.data_ptr<float>(), w.data_ptr<float>(),
                                                                  out.data_ptr<float>(), N, D, H, E);
    return out;
}
"""

proj = load_inline(
    name="heads_projection_ext",
    cpp_sources="torch::Tensor heads_projection(torch::Tensor x, torch::Tensor w);",
    cuda_sources=proj_source,
    functions=["heads_projection"],
)


class ModelNew(nn.Module):
    def __init__(self, heads, width, head_size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width, head_size) * 0.3)

    def forward(self, x):
        return proj.heads_projection(x.contiguous(), self.weight)
