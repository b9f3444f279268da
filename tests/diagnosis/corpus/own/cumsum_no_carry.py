# about = "Each tile begins at zero."
# section = "mismatch"
# problem = "cumsum"
# causes = ["scan-restarts"]
# says = ["tile|block|restart|128"]
# stage = ["verify"]
# line = "carry"

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="cumsum",
    cpp_sources="torch::Tensor scan(torch::Tensor x);",
    cuda_sources=r"""
__global__ void scan_kernel(const float* x, float* y, int n) {
    __shared__ float part[128];
    const float* row = x + (long)blockIdx.x * n;
    float carry = 0.f;
    for (int begin = 0; begin < n; begin += 128) {
        int i = begin + threadIdx.x;
        part[threadIdx.x] = i < n ? row[i] : 0.f;
        __syncthreads();
        for (int o = 1; o < 128; o *= 2) {
            float add = threadIdx.x >= o ? part[threadIdx.x - o] : 0.f;
            __syncthreads();
            part[threadIdx.x] += add;
            __syncthreads();
        }
        if (i < n) y[(long)blockIdx.x * n + i] = carry + part[threadIdx.x];
        
        __syncthreads();
    }
}

torch::Tensor scan(torch::Tensor x) {
    auto y = torch::empty_like(x);
    scan_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
""",
    functions=["scan"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.scan(x.contiguous())
