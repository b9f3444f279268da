# about = "What stood in the tensor is neither summed nor counted where something is scattered."
# section = "mismatch"
# problem = "scatter_mean"
# causes = ["base-ignored"]
# says = ["base|self|stood|initial|first input|include"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="scatter_mean",
    cpp_sources="torch::Tensor scatter_mean(torch::Tensor base, torch::Tensor index, torch::Tensor source);",
    cuda_sources=r"""
__global__ void scatter_mean_kernel(const float* base, const int64_t* index, const float* source, float* out, int cols, int values) {
    extern __shared__ float sums[];
    int* counts = (int*)(sums + cols);
    int r = blockIdx.x;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) { sums[c] = 0.f; counts[c] = 0; }
    __syncthreads();
    for (int i = threadIdx.x; i < values; i += blockDim.x) {
        int c = (int)index[r * values + i];
        atomicAdd(&sums[c], source[r * values + i]);
        atomicAdd(&counts[c], 1);
    }
    __syncthreads();
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        out[r * cols + c] = counts[c] > 0 ? sums[c] / counts[c] : base[r * cols + c];
}

torch::Tensor scatter_mean(torch::Tensor base, torch::Tensor index, torch::Tensor source) {
    auto out = torch::empty_like(base);
    int cols = base.size(1);
    scatter_mean_kernel<<<base.size(0), 64, cols * 8>>>(base.data_ptr<float>(), index.data_ptr<int64_t>(), source.data_ptr<float>(),
                                                        out.data_ptr<float>(), cols, index.size(1));
    return out;
}
""",
    functions=["scatter_mean"],
)


class ModelNew(nn.Module):
    def forward(self, base, index, source):
        return ext.scatter_mean(base.contiguous(), index.contiguous(), source.contiguous())
