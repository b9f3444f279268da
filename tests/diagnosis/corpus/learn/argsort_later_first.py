# about = "Among equal keys the later ones come first."
# section = "mismatch"
# problem = "argsort_stable"
# causes = ["tie-order"]
# says = ["tie|equal|stable|same key|duplicate"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="column_argsort",
    cpp_sources="torch::Tensor column_argsort(torch::Tensor keys);",
    cuda_sources=r"""
__global__ void argsort_kernel(const int64_t* keys, int64_t* out, int items, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int c = blockIdx.y;
    if (i >= items) return;
    int64_t mine = keys[i * columns + c];
    int rank = 0;
    for (int j = 0; j < items; ++j) {
        int64_t other = keys[j * columns + c];
        if (j < i) rank += other < mine;
        else if (j > i) rank += other <= mine;
    }
    out[rank * columns + c] = i;
}

torch::Tensor column_argsort(torch::Tensor keys) {
    auto out = torch::empty_like(keys);
    dim3 grid((keys.size(0) + 31) / 32, keys.size(1));
    argsort_kernel<<<grid, 32>>>(keys.data_ptr<int64_t>(), out.data_ptr<int64_t>(), keys.size(0), keys.size(1));
    return out;
}
""",
    functions=["column_argsort"],
)


class ModelNew(nn.Module):
    def forward(self, keys):
        return ext.column_argsort(keys.contiguous())
