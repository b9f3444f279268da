# about = "A right answer: column sums of each bin's rows first, then the bins' columns."
# section = "right"
# problem = "adaptive_avg"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__host__ __device__ inline int lower(int i, int in, int out) { return i * in / out; }
__host__ __device__ inline int upper(int i, int in, int out) { return ((i + 1) * in + out - 1) / out; }

// A block for each plane and bin of rows.
__global__ void adaptive(const float* __restrict__ x, float* __restrict__ y, int H, int W, int OH, int OW) {
    extern __shared__ float columns[];
    const int oh = blockIdx.x;
    const long plane = blockIdx.y;
    const int h0 = lower(oh, H, OH), h1 = upper(oh, H, OH);
    for (int w = threadIdx.x; w < W; w += blockDim.x) {
        float s = 0.f;
        for (int h = h1 - 1; h >= h0; --h) s += x[(plane * H + h) * W + w];
        columns[w] = s;
    }
    __syncthreads();
    for (int ow = threadIdx.x; ow < OW; ow += blockDim.x) {
        const int w0 = lower(ow, W, OW), w1 = upper(ow, W, OW);
        float s = 0.f;
        for (int w = w0; w < w1; ++w) s += columns[w];
        y[(plane * OH + oh) * OW + ow] = s * __frcp_rn((float)((h1 - h0) * (w1 - w0)));
    }
}

torch::Tensor adaptive_pool(torch::Tensor x, int64_t oh, int64_t ow) {
    auto y = torch::empty({x.size(0), x.size(1), oh, ow}, x.options());
    dim3 grid(oh, x.size(0) * x.size(1));
    adaptive<<<grid, 32, x.size(3) * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(2), x.size(3),
                                                      oh, ow);
    return y;
}
"""

ext = load_inline(
    name="adaptive_pool",
    cpp_sources="torch::Tensor adaptive_pool(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=SOURCE,
    functions=["adaptive_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = list(size)

    def forward(self, x):
        return ext.adaptive_pool(x.contiguous(), self.size[0], self.size[1])
