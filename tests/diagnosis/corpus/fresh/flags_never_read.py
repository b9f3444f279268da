# about = "The flags are passed and never looked at: the maximum runs over the whole row."
# section = "mismatch"
# problem = "running_max_flags"
# causes = ["segments-ignored", "scan-not-reset", "mask-ignored", "index-ignored"]
# says = ["segment|flag|start|reset|mask|border|ignored"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

// Segmented Hillis-Steele scan: a pair (value, flag) per element, two buffers in shared memory.
__global__ void segmented_max(const float* x, const long* starts, float* out, int n) {
    extern __shared__ float values[];
    int* flags = (int*)(values + 2 * blockDim.x);
    int i = threadIdx.x, row = blockIdx.x;
    int from = 0, to = blockDim.x;
    values[i] = i < n ? x[row * n + i] : -INFINITY;
    flags[i] = i < n ? (int)starts[row * n + i] : 0;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        float v = values[from + i];
        int f = flags[from + i];
        if (i >= d) {
            v = fmaxf(v, values[from + i - d]);
            f |= flags[from + i - d];
        }
        values[to + i] = v;
        flags[to + i] = f;
        __syncthreads();
        int swap = from; from = to; to = swap;
    }
    if (i < n) out[row * n + i] = values[from + i];
}

torch::Tensor run_max(torch::Tensor x, torch::Tensor starts) {
    int rows = x.size(0), n = x.size(1);
    auto out = torch::empty_like(x);
    int threads = 32;
    while (threads < n) threads *= 2;
    TORCH_CHECK(threads <= 1024, "rows of more than 1024 elements");
    size_t bytes = 2 * threads * (sizeof(float) + sizeof(int));
    segmented_max<<<rows, threads, bytes>>>(x.data_ptr<float>(), (const long*)starts.data_ptr<int64_t>(), out.data_ptr<float>(), n);
    return out;
}
"""

ext = load_inline("run_max_module", ["torch::Tensor run_max(torch::Tensor x, torch::Tensor starts);"], [SOURCE], functions=["run_max"], extra_cuda_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, starts):
        return ext.run_max(x.contiguous(), starts.contiguous())
