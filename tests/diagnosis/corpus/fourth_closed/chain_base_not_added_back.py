# about = "A step subtracts the common maximum and does not add it to the logarithm again."
# section = "mismatch"
# problem = "crf_log_likelihood"
# causes = ["max-not-added-back", "rescale-missing"]
# says = ["max|added back|rescal|subtract|base"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>

constexpr unsigned ALL = 0xffffffffu;

__device__ float top(float v) {
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(ALL, v, o));
    return v;
}

__device__ float sum(float v) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(ALL, v, o);
    return v;
}

// A warp per sequence; lane b holds exp(alpha[b] - base), base is common. The turns are exponentiated once.
__global__ void chain(const float* emission, const int64_t* path, const int64_t* length, const float* start, const float* turn,
                      const float* end, float* partition, float* gold, int steps, int tags) {
    extern __shared__ float factor[];
    const int n = blockIdx.x, lane = threadIdx.x, len = (int)length[n];
    const bool on = lane < tags;
    for (int i = lane; i < tags * tags; i += 32) factor[i] = expf(turn[i]);
    __syncwarp();
    const float* e = emission + (size_t)n * steps * tags;
    float log_a = on ? start[lane] + e[lane] : -INFINITY;
    for (int t = 1; t < len; ++t) {
        const float base = top(log_a);
        const float a = expf(log_a - base);
        float mix = 0.f;
        for (int k = 0; k < tags; ++k) {
            const float from = __shfl_sync(ALL, a, k);
            if (on) mix = fmaf(from, factor[k * tags + lane], mix);
        }
        log_a = on ? logf(mix) + e[t * tags + lane] : -INFINITY;
    }
    log_a = on ? log_a + end[lane] : -INFINITY;
    const float base = top(log_a);
    const float z = sum(expf(log_a - base));
    // the score of the path: lanes take the steps in turn
    const int64_t* p = path + (size_t)n * steps;
    float s = 0.f;
    for (int t = lane; t < len; t += 32) {
        s += e[t * tags + p[t]];
        s += t == 0 ? start[p[0]] : turn[p[t - 1] * tags + p[t]];
        if (t == len - 1) s += end[p[t]];
    }
    s = sum(s);
    if (lane == 0) {
        partition[n] = base + logf(z);
        gold[n] = s;
    }
}

void likelihood(torch::Tensor emission, torch::Tensor path, torch::Tensor length, torch::Tensor start, torch::Tensor turn,
                torch::Tensor end, torch::Tensor partition, torch::Tensor gold) {
    const int tags = emission.size(2);
    TORCH_CHECK(tags <= 32, "more tags than lanes");
    chain<<<emission.size(0), 32, tags * tags * sizeof(float), c10::cuda::getCurrentCUDAStream()>>>(
        emission.data_ptr<float>(), path.data_ptr<int64_t>(), length.data_ptr<int64_t>(), start.data_ptr<float>(),
        turn.data_ptr<float>(), end.data_ptr<float>(), partition.data_ptr<float>(), gold.data_ptr<float>(), emission.size(1), tags);
}
"""
CPP = """
void likelihood(torch::Tensor emission, torch::Tensor path, torch::Tensor length, torch::Tensor start, torch::Tensor turn,
                torch::Tensor end, torch::Tensor partition, torch::Tensor gold);
"""
chains = load_inline(name="chains", cpp_sources=CPP, cuda_sources=SOURCE, functions=["likelihood"])


class ModelNew(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start = nn.Parameter(torch.randn(tags))
        self.turn = nn.Parameter(torch.randn(tags, tags))
        self.end = nn.Parameter(torch.randn(tags))

    def forward(self, emission, path, length):
        partition, gold = torch.empty(2, emission.size(0), device=emission.device).unbind()
        chains.likelihood(emission.contiguous(), path.contiguous(), length.contiguous(), self.start, self.turn, self.end,
                          partition, gold)
        return partition, gold
