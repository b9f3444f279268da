# about = "A right answer: value and flag travel together through a tree in shared memory."
# section = "right"
# problem = "segmented_cumsum"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="segmented",
    cpp_sources="torch::Tensor segmented(torch::Tensor x, torch::Tensor starts);",
    cuda_sources=r"""
struct Item {
    float sum;
    int cut;
};

__device__ Item both(const Item& left, const Item& right) {
    return {right.cut ? right.sum : left.sum + right.sum, left.cut | right.cut};
}

template <int N>
__global__ void segmented_kernel(const float* x, const int* starts, float* y, int n) {
    __shared__ Item items[2][N];
    const long row = (long)blockIdx.x * n;
    Item carry{0.f, 0};
    for (int base = 0; base < n; base += N) {
        const int i = base + threadIdx.x;
        int side = 0;
        items[0][threadIdx.x] = i < n ? Item{x[row + i], starts[row + i] != 0} : Item{0.f, 0};
        __syncthreads();
        for (int d = 1; d < N; d *= 2) {
            Item mine = items[side][threadIdx.x];
            if (threadIdx.x >= d) mine = both(items[side][threadIdx.x - d], mine);
            items[side ^ 1][threadIdx.x] = mine;
            side ^= 1;
            __syncthreads();
        }
        const Item mine = both(carry, items[side][threadIdx.x]);
        if (i < n) y[row + i] = mine.sum;
        carry = both(carry, items[side][N - 1]);
        __syncthreads();
    }
}

torch::Tensor segmented(torch::Tensor x, torch::Tensor starts) {
    auto y = torch::empty_like(x);
    segmented_kernel<64><<<x.size(0), 64>>>(x.data_ptr<float>(), starts.data_ptr<int>(), y.data_ptr<float>(),
                                            x.size(1));
    return y;
}
""",
    functions=["segmented"],
)


class ModelNew(nn.Module):
    def forward(self, x, starts):
        return ext.segmented(x.contiguous(), starts.contiguous())
