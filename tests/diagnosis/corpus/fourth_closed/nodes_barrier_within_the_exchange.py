# about = "The barrier between the steps stands within the branch of the lower partner, which half of the threads skip."
# section = "run"
# problem = "topk_nodes"
# causes = ["divergent-barrier", "shared-race", "deadlock", "barrier-after-exit", "not-deterministic"]
# says = ["barrier|sync|thread|race"]
# stage = ["run", "verify", "integrity"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

// One block per graph. Scores and indices are sorted together in shared memory (bitonic network).
__global__ void topk_pool_kernel(const float* __restrict__ x, const float* __restrict__ dir, float* __restrict__ out,
                                 int64_t* __restrict__ index, int nodes, int width, int keep, int padded) {
    extern __shared__ float keys[];
    int* ids = (int*)(keys + padded);
    const int b = blockIdx.x;
    const int tid = threadIdx.x;

    float norm = 0.0f;
    for (int d = 0; d < width; ++d) norm += dir[d] * dir[d];
    norm = sqrtf(norm);

    for (int i = tid; i < padded; i += blockDim.x) {
        if (i < nodes) {
            float dot = 0.0f;
            for (int d = 0; d < width; ++d) dot += x[(b * nodes + i) * width + d] * dir[d];
            keys[i] = tanhf(dot / norm);
        } else {
            keys[i] = -2.0f;
        }
        ids[i] = i;
    }
    __syncthreads();

    for (int size = 2; size <= padded; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            for (int i = tid; i < padded; i += blockDim.x) {
                int j = i ^ stride;
                if (j > i) {
                    bool descending = (i & size) == 0;
                    if ((keys[i] < keys[j]) == descending) {
                        float k = keys[i]; keys[i] = keys[j]; keys[j] = k;
                        int t = ids[i]; ids[i] = ids[j]; ids[j] = t;
                    }
                    __syncthreads();
                }
            }
        }
    }

    for (int r = tid; r < keep; r += blockDim.x) index[b * keep + r] = ids[r];
    for (int i = tid; i < keep * width; i += blockDim.x) {
        int r = i / width, d = i % width;
        out[b * keep * width + i] = x[(b * nodes + ids[r]) * width + d] * keys[r];
    }
}

std::vector<torch::Tensor> topk_pool(torch::Tensor x, torch::Tensor dir, int64_t keep) {
    const int batch = x.size(0), nodes = x.size(1), width = x.size(2);
    int padded = 1;
    while (padded < nodes) padded *= 2;
    auto out = torch::empty({batch, keep, width}, x.options());
    auto index = torch::empty({batch, keep}, x.options().dtype(torch::kLong));
    size_t smem = padded * (sizeof(float) + sizeof(int));
    topk_pool_kernel<<<batch, 64, smem, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), dir.data_ptr<float>(), out.data_ptr<float>(), index.data_ptr<int64_t>(), nodes, width, (int)keep,
        padded);
    return {out, index};
}
"""

cpp_src = "#include <vector>\nstd::vector<torch::Tensor> topk_pool(torch::Tensor x, torch::Tensor dir, int64_t keep);"

pool = load_inline(name="topk_pool", cpp_sources=cpp_src, cuda_sources=cuda_src, functions=["topk_pool"])


class ModelNew(nn.Module):
    def __init__(self, width, keep):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(width))
        self.keep = keep

    def forward(self, x):
        out, index = pool.topk_pool(x.contiguous(), self.direction, self.keep)
        return out, index
