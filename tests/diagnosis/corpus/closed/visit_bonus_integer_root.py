# about = "The root of the count is cut off to an integer."
# section = "mismatch"
# problem = "visit_bonus"
# causes = ["truncated-to-integer"]
# says = ["integer|trunc|cut|fraction|round"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
template <typename scalar_t>
__global__ void histogram(scalar_t* counts, const scalar_t* ids, int n, int states) {
    extern __shared__ int local[];
    for (int s = threadIdx.x; s < states; s += blockDim.x) local[s] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&local[(int)ids[i]], 1);
    __syncthreads();
    for (int s = threadIdx.x; s < states; s += blockDim.x) counts[s] += local[s];
}

__global__ void explore(const int64_t* counts, const int64_t* ids, const float* reward, float* out, float beta, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        int64_t root = sqrt((double)counts[ids[i]]);
        out[i] = reward[i] + beta / root;
    }
}

torch::Tensor explore_step(torch::Tensor counts, torch::Tensor ids, torch::Tensor reward, double beta) {
    int n = ids.numel(), states = counts.numel();
    auto out = torch::empty_like(reward);
    histogram<int64_t><<<1, 128, states * sizeof(int)>>>(counts.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), n, states);
    explore<<<(n + 31) / 32, 32>>>(counts.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), reward.data_ptr<float>(), out.data_ptr<float>(), beta, n);
    return out;
}
"""
lib = load_inline("explore", "torch::Tensor explore_step(torch::Tensor counts, torch::Tensor ids, torch::Tensor reward, double beta);", CUDA, functions=["explore_step"])


class ModelNew(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, counts, ids, reward):
        out = lib.explore_step(counts, ids, reward.contiguous(), self.beta)
        return counts.clone(), out
