# about = "Scores are divided by the squared norm of the vector, and kept nodes come from the first graph."
# section = "mismatch"
# problem = "topk_nodes"
# faults = [{causes = ["root-omitted", "wrong-divisor", "square-omitted", "wrong-norm-order", "scale-doubled"], says = ["root|sqrt|squar|norm|scal|divi"]}, {causes = ["first-batch-only", "index-ignored", "layout-misread", "keepdim-broadcast"], says = ["batch|sample|first|graph|ind|offset"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SRC = r"""
#include <c10/cuda/CUDAStream.h>
#include <utility>

__global__ void project(const float* x, const float* dir, float* score, int total, int width) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    float dot = 0.f, len = 0.f;
    for (int d = 0; d < width; ++d) {
        dot = fmaf(x[i * width + d], dir[d], dot);
        len = fmaf(dir[d], dir[d], len);
    }
    score[i] = tanhf(dot / len);
}

// a node's place is the number of nodes that come before it
__global__ void place(const float* score, float* best, int64_t* index, int nodes, int keep) {
    const int i = threadIdx.x + blockIdx.x * blockDim.x, b = blockIdx.y;
    if (i >= nodes) return;
    const float* row = score + b * nodes;
    int rank = 0;
    for (int j = 0; j < nodes; ++j) rank += row[j] > row[i] || (row[j] == row[i] && j < i);
    if (rank < keep) {
        index[b * keep + rank] = i;
        best[b * keep + rank] = row[i];
    }
}

__global__ void take(const float* x, const float* best, const int64_t* index, float* out, int nodes, int keep, int width) {
    const int r = blockIdx.x, b = blockIdx.y;
    const long from = index[b * keep + r];
    const float s = best[b * keep + r];
    for (int d = threadIdx.x; d < width; d += blockDim.x)
        out[(b * keep + r) * width + d] = s * x[from * width + d];
}

std::pair<torch::Tensor, torch::Tensor> top_nodes(torch::Tensor x, torch::Tensor dir, int64_t keep) {
    const int batch = x.size(0), nodes = x.size(1), width = x.size(2), total = batch * nodes;
    auto stream = c10::cuda::getCurrentCUDAStream();
    auto score = torch::empty({batch, nodes}, x.options()), best = torch::empty({batch, keep}, x.options());
    auto index = torch::empty({batch, keep}, x.options().dtype(torch::kInt64));
    auto out = torch::empty({batch, keep, width}, x.options());
    project<<<(total + 63) / 64, 64, 0, stream>>>(x.data_ptr<float>(), dir.data_ptr<float>(), score.data_ptr<float>(), total, width);
    place<<<dim3((nodes + 31) / 32, batch), 32, 0, stream>>>(score.data_ptr<float>(), best.data_ptr<float>(),
                                                            index.data_ptr<int64_t>(), nodes, keep);
    take<<<dim3(keep, batch), 32, 0, stream>>>(x.data_ptr<float>(), best.data_ptr<float>(), index.data_ptr<int64_t>(),
                                               out.data_ptr<float>(), nodes, keep, width);
    return {out, index};
}
"""
CPP = "#include <utility>\nstd::pair<torch::Tensor, torch::Tensor> top_nodes(torch::Tensor, torch::Tensor, int64_t);"
ranks = load_inline(name="top_nodes", cpp_sources=CPP, cuda_sources=SRC, functions=["top_nodes"])


class ModelNew(nn.Module):
    def __init__(self, width, keep):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(width))
        self.keep = keep

    def forward(self, x):
        return ranks.top_nodes(x.contiguous(), self.direction, self.keep)
