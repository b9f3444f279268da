# about = "The result is written as b m n into a tensor of b n m."
# section = "mismatch"
# problem = "contract_middle"
# causes = ["layout-misread", "transposed-operand"]
# says = ["transpos|layout|order|exchang|stride|dimension"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
__global__ void contract_kernel(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int K, int M, int N) {
    extern __shared__ float xs[];
    int b = blockIdx.y, m = blockIdx.x;
    for (int k = threadIdx.x; k < K; k += blockDim.x) xs[k] = x[(b * K + k) * M + m];
    __syncthreads();
    for (int n = threadIdx.x; n < N; n += blockDim.x) {
        float s = 0.f;
        for (int k = 0; k < K; ++k) s += xs[k] * w[k * N + n];
        y[(b * M + m) * N + n] = s;
    }
}

torch::Tensor contract(torch::Tensor x, torch::Tensor w) {
    int B = x.size(0), K = x.size(1), M = x.size(2), N = w.size(1);
    auto y = torch::empty({B, N, M}, x.options());
    contract_kernel<<<dim3(M, B), 32, K * sizeof(float)>>>(x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), K, M, N);
    return y;
}
"""
ext = load_inline("contract", cpp_sources="torch::Tensor contract(torch::Tensor x, torch::Tensor w);", cuda_sources=SRC, functions=["contract"])


class ModelNew(nn.Module):
    def forward(self, x, w):
        return ext.contract(x.contiguous(), w.contiguous())
