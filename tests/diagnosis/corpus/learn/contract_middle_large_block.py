# about = "A block of 32 by 32 by 3 threads, which is more than a block may have; nothing is launched and nobody looks."
# section = "run"
# problem = "contract_middle"
# causes = ["illegal-launch", "unchecked-launch-error"]
# says = ["block|thread|1024|launch"]
# stage = ["run", "verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__global__ void batched_contract(const float* x, const float* w, float* y, int B, int K, int M, int N) {
    int m = blockIdx.x * blockDim.x + threadIdx.x;
    int n = blockIdx.y * blockDim.y + threadIdx.y;
    int b = threadIdx.z;
    if (m < M && n < N && b < B) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++) {
            sum += x[(b * K + k) * M + m] * w[k * N + n];
        }
        y[(b * N + n) * M + m] = sum;
    }
}

torch::Tensor batched_contract_cuda(torch::Tensor x, torch::Tensor w) {
    const int B = x.size(0);
    const int K = x.size(1);
    const int M = x.size(2);
    const int N = w.size(1);
    auto y = torch::empty({B, N, M}, x.options());
    dim3 threads(32, 32, B);
    dim3 blocks((M + 31) / 32, (N + 31) / 32);
    batched_contract<<<blocks, threads>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), B, K, M, N);
    return y;
}
"""
bc = load_inline(name="batched_contract_ext", cpp_sources="torch::Tensor batched_contract_cuda(torch::Tensor x, torch::Tensor w);", cuda_sources=cuda_src, functions=["batched_contract_cuda"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, w):
        return bc.batched_contract_cuda(x.contiguous(), w.contiguous())
