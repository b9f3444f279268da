# about = "Asks an int64 tensor for a pointer to int."
# section = "run"
# problem = "cumsum_counts"
# causes = ["data-ptr-type", "type-mismatch"]
# says = ["int64|long|Int\\b"]
# stage = ["run", "verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
__global__ void int_cumsum_kernel(const int* in, int* out, int n) {
    __shared__ int warp_total[4];
    int row = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int carry = 0;
    for (int base = 0; base < n; base += blockDim.x) {
        int i = base + threadIdx.x;
        int v = i < n ? in[row * n + i] : 0;
        for (int d = 1; d < 32; d *= 2) {
            int o = __shfl_up_sync(0xffffffff, v, d);
            if (lane >= d) v += o;
        }
        if (lane == 31) warp_total[warp] = v;
        __syncthreads();
        int before = carry;
        for (int w = 0; w < 4; ++w) {
            if (w < warp) before += warp_total[w];
            carry += warp_total[w];
        }
        if (i < n) out[row * n + i] = before + v;
        __syncthreads();
    }
}

torch::Tensor int_cumsum(torch::Tensor counts) {
    auto out = torch::empty_like(counts);
    int_cumsum_kernel<<<counts.size(0), 128>>>(counts.data_ptr<int>(), out.data_ptr<int>(), counts.size(1));
    return out;
}
"""

int_cumsum_module = load_inline(
    name="int_cumsum_module",
    cpp_sources="torch::Tensor int_cumsum(torch::Tensor counts);",
    cuda_sources=cuda_source,
    functions=["int_cumsum"],
)


class ModelNew(nn.Module):
    def forward(self, counts):
        return int_cumsum_module.int_cumsum(counts.contiguous())
