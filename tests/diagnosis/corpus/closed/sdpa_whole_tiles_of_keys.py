# about = "Only whole tiles of eight keys are visited: the last three of 27 keys are left out."
# section = "mismatch"
# problem = "attention_plain"
# causes = ["lost-last-block", "last-element-left-out"]
# says = ["key|tile|block|last|remainder|24|partial"]
# stage = ["verify"]
# line = "tiles"

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cpp_src = """
torch::Tensor sdpa_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v);
"""

cuda_src = """
#include <torch/extension.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <cfloat>

template <int BK>
__global__ void sdpa_kernel(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                            float* __restrict__ o, int seq_q, int seq_k, int dim) {
    extern __shared__ float smem[];
    float* sq = smem;            // dim
    float* ss = smem + dim;      // BK
    int bh = blockIdx.y;
    int i = blockIdx.x;
    int tid = threadIdx.x;       // one thread per output column, at least BK of them
    if (tid < dim) sq[tid] = q[(bh * seq_q + i) * dim + tid] * rsqrtf((float)dim);
    __syncthreads();

    float m = -FLT_MAX, l = 0.0f, acc = 0.0f;
    int num_tiles = seq_k / BK;
    for (int t = 0; t < num_tiles; t++) {
        if (tid < BK) {
            const float* krow = k + (bh * seq_k + t * BK + tid) * dim;
            float s = 0.0f;
            for (int d = 0; d < dim; d++) s += sq[d] * krow[d];
            ss[tid] = s;
        }
        __syncthreads();
        float tile_max = m;
        for (int j = 0; j < BK; j++) tile_max = fmaxf(tile_max, ss[j]);
        float alpha = __expf(m - tile_max);
        l *= alpha;
        acc *= alpha;
        for (int j = 0; j < BK; j++) {
            float p = __expf(ss[j] - tile_max);
            l += p;
            if (tid < dim) acc += p * v[(bh * seq_k + t * BK + j) * dim + tid];
        }
        m = tile_max;
        __syncthreads();
    }
    if (tid < dim) o[(bh * seq_q + i) * dim + tid] = acc / l;
}

torch::Tensor sdpa_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    auto o = torch::empty_like(q);
    int bh = q.size(0) * q.size(1);
    int dim = q.size(3);
    dim3 grid(q.size(2), bh);
    sdpa_kernel<8><<<grid, 64, (dim + 8) * sizeof(float)>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(),
        q.size(2), k.size(2), dim);
    return o;
}
"""

sdpa = load_inline(name="sdpa", cpp_sources=[cpp_src], cuda_sources=[cuda_src], functions=["sdpa_forward"])


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, q, k, v):
        return sdpa.sdpa_forward(q.contiguous(), k.contiguous(), v.contiguous())
