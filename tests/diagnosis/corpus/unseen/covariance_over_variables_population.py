# about = "Centred over the variables instead of over the observations, and divided by n."
# section = "mismatch"
# problem = "batched_covariance"
# faults = [{causes = ["statistics-over-wrong-axes", "wrong-axis", "keepdim-broadcast", "statistics-over-batch"], says = ["mean|axis|axes|dim|centr|over|variables"]}, {causes = ["biased-variance", "wrong-divisor"], says = ["divis|divid|n - 1|n-1|biased|count|Bessel|factor"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="covariances",
    cpp_sources="torch::Tensor covariance(torch::Tensor x);",
    cuda_sources=r"""
// A block for each sample, which it holds centred in shared memory; a thread for each entry.
__global__ void covariance_kernel(const float* x, float* y, int variables, int n) {
    extern __shared__ float tile[];
    float* mean = tile + variables * n;
    int b = blockIdx.x;
    for (int i = threadIdx.x; i < variables * n; i += blockDim.x) tile[i] = x[(long)b * variables * n + i];
    __syncthreads();
    for (int t = threadIdx.x; t < n; t += blockDim.x) {
        float sum = 0.f;
        for (int v = 0; v < variables; ++v) sum += tile[v * n + t];
        mean[t] = sum / variables;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < variables * n; i += blockDim.x) tile[i] -= mean[i % n];
    __syncthreads();
    for (int e = threadIdx.x; e < variables * variables; e += blockDim.x) {
        int r = e / variables, c = e % variables;
        float sum = 0.f;
        for (int t = 0; t < n; ++t) sum += tile[r * n + t] * tile[c * n + t];
        y[(long)b * variables * variables + e] = sum / n;
    }
}

torch::Tensor covariance(torch::Tensor x) {
    int batch = x.size(0), variables = x.size(1), n = x.size(2);
    auto y = torch::empty({batch, variables, variables}, x.options());
    int shared = (variables * n + n) * sizeof(float);
    covariance_kernel<<<batch, 192, shared>>>(x.data_ptr<float>(), y.data_ptr<float>(), variables, n);
    return y;
}
""",
    functions=["covariance"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.covariance(x.contiguous())
