# about = "The sum is set back after a segment's first element, which still joins the segment before."
# section = "mismatch"
# problem = "segmented_cumsum"
# causes = ["scan-off-by-one", "index-off-by-one"]
# says = ["off by one|one element|one late|late|after|first element|shift|next"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="flagged_sum",
    cpp_sources="torch::Tensor flagged_sum(torch::Tensor x, torch::Tensor starts);",
    cuda_sources=r"""
__global__ void flagged_sum_kernel(const float* x, const int* starts, float* y, int rows, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.f;
    for (int i = 0; i < n; ++i) {
        int at = row * n + i;
        sum += x[at];
        y[at] = sum;
        if (starts[at]) sum = 0.f;
    }
}

torch::Tensor flagged_sum(torch::Tensor x, torch::Tensor starts) {
    TORCH_CHECK(x.sizes() == starts.sizes(), "one flag for each element");
    auto y = torch::empty_like(x);
    int rows = x.size(0), n = x.size(1);
    flagged_sum_kernel<<<(rows + 31) / 32, 32>>>(x.data_ptr<float>(), starts.data_ptr<int>(), y.data_ptr<float>(), rows,
                                                 n);
    return y;
}
""",
    functions=["flagged_sum"],
)


class ModelNew(nn.Module):
    def forward(self, x, starts):
        x = x.contiguous()
        starts = starts.to(torch.int32).contiguous()
        return ext.flagged_sum(x, starts)
