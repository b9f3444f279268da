# about = "One thread for each element of a row in one block: more than a block may have."
# section = "run"
# problem = "cumsum_long"
# causes = ["illegal-launch", "unchecked-launch-error"]
# says = ["thread|launch|block|1024"]
# stage = ["build", "run", "verify", "integrity"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
__global__ void prefix_sum(const float* x, float* y, int n) {
    extern __shared__ float line[];
    int t = threadIdx.x;
    const float* row = x + (long)blockIdx.x * n;
    line[t] = row[t];
    __syncthreads();
    for (int step = 1; step < n; step *= 2) {
        float left = 0.f;
        if (t >= step) left = line[t - step];
        __syncthreads();
        line[t] += left;
        __syncthreads();
    }
    y[(long)blockIdx.x * n + t] = line[t];
}

torch::Tensor prefix_sum_rows(torch::Tensor x) {
    const int rows = x.size(0);
    const int n = x.size(1);
    auto y = torch::empty_like(x);
    prefix_sum<<<rows, n, n * sizeof(float)>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

lib = load_inline(
    name="prefix_sum_rows",
    cpp_sources="torch::Tensor prefix_sum_rows(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["prefix_sum_rows"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        if not x.is_contiguous():
            x = x.contiguous()
        return lib.prefix_sum_rows(x)
