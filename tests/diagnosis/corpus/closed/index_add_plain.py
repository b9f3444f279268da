# about = "The factor of the source is left out."
# section = "mismatch"
# problem = "index_add_scaled"
# causes = ["scale-missing"]
# says = ["scale|factor|alpha|0\\.5|twice|half"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="index_add_rows",
    cpp_sources="torch::Tensor index_add_rows(torch::Tensor base, torch::Tensor index, torch::Tensor source, double alpha);",
    cuda_sources=r"""
__global__ void add_rows(float* out, const int64_t* index, const float* source, int edges, int width, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < edges * width) {
        int e = i / width, j = i % width;
        atomicAdd(&out[index[e] * width + j], source[i]);
    }
}

torch::Tensor index_add_rows(torch::Tensor base, torch::Tensor index, torch::Tensor source, double alpha) {
    auto out = base.clone();
    int total = source.numel();
    add_rows<<<(total + 255) / 256, 256>>>(out.data_ptr<float>(), index.data_ptr<int64_t>(), source.data_ptr<float>(),
                                           index.size(0), base.size(1), alpha);
    return out;
}
""",
    functions=["index_add_rows"],
)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, base, index, source):
        return ext.index_add_rows(base.contiguous(), index, source.contiguous(), self.alpha)
