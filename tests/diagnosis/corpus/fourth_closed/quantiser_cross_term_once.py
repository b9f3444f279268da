# about = "The cross term of the squared distance lacks its factor two, so that other codes are the nearest."
# section = "mismatch"
# problem = "vector_quantise"
# causes = ["wrong-coefficient", "scale-missing", "wrong-divisor"]
# says = ["factor|two|twice|double|half|cross|coefficient|scal|distance|product|\\b2\\b"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

vq_source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>

#define TILE 8

// one thread per row; the codebook passes through shared memory in tiles of TILE codes
__global__ void nearest_kernel(const float* __restrict__ x, const float* __restrict__ book, float* __restrict__ chosen,
                               int64_t* __restrict__ index, int* __restrict__ usage, float* __restrict__ loss, int rows,
                               int codes, int width) {
    extern __shared__ float tile[];
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float xx = 0.0f;
    if (row < rows)
        for (int d = 0; d < width; ++d) xx += x[row * width + d] * x[row * width + d];
    float best = FLT_MAX;
    int best_code = 0;
    for (int first = 0; first < codes; first += TILE) {
        int here = min(TILE, codes - first);
        for (int i = threadIdx.x; i < here * width; i += blockDim.x) tile[i] = book[first * width + i];
        __syncthreads();
        if (row < rows) {
            for (int k = 0; k < here; ++k) {
                float dot = 0.0f, ee = 0.0f;
                for (int d = 0; d < width; ++d) {
                    float e = tile[k * width + d];
                    dot += x[row * width + d] * e;
                    ee += e * e;
                }
                float dist = xx - dot + ee;
                if (dist < best) {
                    best = dist;
                    best_code = first + k;
                }
            }
        }
        __syncthreads();
    }
    if (row < rows) {
        index[row] = best_code;
        float err = 0.0f;
        for (int d = 0; d < width; ++d) {
            float e = book[best_code * width + d];
            chosen[row * width + d] = e;
            err += (x[row * width + d] - e) * (x[row * width + d] - e);
        }
        atomicAdd(&usage[best_code], 1);
        atomicAdd(loss, err);
    }
}

__global__ void finish_kernel(const int* usage, float* loss, float* perplexity, int rows, int width, int codes, float beta) {
    float entropy = 0.0f;
    for (int k = threadIdx.x; k < codes; k += 32) {
        float p = (float)usage[k] / rows;
        entropy -= p * logf(p + 1e-10f);
    }
    for (int o = 16; o > 0; o /= 2) entropy += __shfl_down_sync(0xffffffff, entropy, o);
    if (threadIdx.x == 0) {
        *perplexity = expf(entropy);
        *loss = beta * *loss / (rows * width);
    }
}

std::vector<torch::Tensor> quantise(torch::Tensor x, torch::Tensor book, double beta) {
    int rows = x.size(0), width = x.size(1), codes = book.size(0);
    auto chosen = torch::empty_like(x);
    auto index = torch::empty({rows}, x.options().dtype(torch::kInt64));
    auto usage = torch::zeros({codes}, x.options().dtype(torch::kInt32));
    auto loss = torch::zeros({}, x.options());
    auto perplexity = torch::empty({}, x.options());
    auto stream = at::cuda::getCurrentCUDAStream();
    nearest_kernel<<<(rows + 31) / 32, 32, TILE * width * sizeof(float), stream>>>(
        x.data_ptr<float>(), book.data_ptr<float>(), chosen.data_ptr<float>(), index.data_ptr<int64_t>(),
        usage.data_ptr<int>(), loss.data_ptr<float>(), rows, codes, width);
    finish_kernel<<<1, 32, 0, stream>>>(usage.data_ptr<int>(), loss.data_ptr<float>(), perplexity.data_ptr<float>(), rows,
                                        width, codes, (float)beta);
    return {chosen, index, loss, perplexity};
}
"""

vq_cpp = "#include <vector>\nstd::vector<torch::Tensor> quantise(torch::Tensor x, torch::Tensor book, double beta);"

vq = load_inline(name="vq_tiles", cpp_sources=vq_cpp, cuda_sources=vq_source, functions=["quantise"])


class ModelNew(nn.Module):
    def __init__(self, codes, width, commitment):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(codes, width))
        self.commitment = commitment

    def forward(self, x):
        chosen, index, loss, perplexity = vq.quantise(x.contiguous(), self.codebook, self.commitment)
        return chosen, index, loss, perplexity
