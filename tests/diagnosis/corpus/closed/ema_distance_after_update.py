# about = "The distance is measured to the average that is already updated."
# section = "mismatch"
# problem = "ema_update"
# causes = ["state-order", "activation-order"]
# says = ["updat|before|after|order|old|new"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="ema_rows",
    cpp_sources="torch::Tensor ema_rows(torch::Tensor average, torch::Tensor x, double decay);",
    cuda_sources=r"""
__global__ void ema_kernel(float* average, const float* x, float* distance, int width, float decay) {
    __shared__ float partial[2];
    int row = blockIdx.x;
    float total = 0.f;
    for (int j = threadIdx.x; j < width; j += blockDim.x) {
        float a = average[row * width + j] * decay + x[row * width + j] * (1.f - decay);
        average[row * width + j] = a;
        total += fabsf(x[row * width + j] - a);
    }
    for (int offset = 16; offset > 0; offset >>= 1) total += __shfl_down_sync(0xffffffff, total, offset);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = total;
    __syncthreads();
    if (threadIdx.x == 0) distance[row] = partial[0] + partial[1];
}

torch::Tensor ema_rows(torch::Tensor average, torch::Tensor x, double decay) {
    auto distance = torch::empty({average.size(0)}, average.options());
    ema_kernel<<<average.size(0), 64>>>(average.data_ptr<float>(), x.data_ptr<float>(), distance.data_ptr<float>(),
                                        average.size(1), (float)decay);
    return distance;
}
""",
    functions=["ema_rows"],
)


class ModelNew(nn.Module):
    def __init__(self, decay):
        super().__init__()
        self.decay = decay

    def forward(self, average, x):
        distance = ext.ema_rows(average, x.contiguous(), self.decay)
        return average, distance
