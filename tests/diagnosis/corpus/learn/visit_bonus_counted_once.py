# about = "A state that is visited several times is counted once: every visit writes the old count plus one."
# section = "mismatch"
# problem = "visit_bonus"
# causes = ["scatter-overwrites", "global-race-between-blocks"]
# says = ["overwrit|lost|atomic|same place|once|duplicate|several|race|twice|repeat"]
# stage = ["verify", "run"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="visits",
    cpp_sources="torch::Tensor visits(torch::Tensor counts, torch::Tensor ids, torch::Tensor reward, double beta);",
    cuda_sources=r"""
__global__ void count_kernel(const int64_t* before, int64_t* counts, const int64_t* ids, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int64_t s = ids[i];
        int64_t value = before[s] + 1;
        atomicExch((unsigned long long*)&counts[s], (unsigned long long)value);
    }
}

__global__ void bonus_kernel(const int64_t* counts, const int64_t* ids, const float* reward, float* out, float beta, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = reward[i] + beta * rsqrtf((float)counts[ids[i]]);
}

torch::Tensor visits(torch::Tensor counts, torch::Tensor ids, torch::Tensor reward, double beta) {
    auto before = counts.clone();
    auto out = torch::empty_like(reward);
    int n = ids.size(0);
    count_kernel<<<1, 256>>>(before.data_ptr<int64_t>(), counts.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), n);
    bonus_kernel<<<(n + 127) / 128, 128>>>(counts.data_ptr<int64_t>(), ids.data_ptr<int64_t>(), reward.data_ptr<float>(),
                                           out.data_ptr<float>(), (float)beta, n);
    return out;
}
""",
    functions=["visits"],
)


class ModelNew(nn.Module):
    def __init__(self, beta):
        super().__init__()
        self.beta = beta

    def forward(self, counts, ids, reward):
        out = ext.visits(counts, ids, reward.contiguous(), self.beta)
        return counts.clone(), out
