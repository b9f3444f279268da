# about = "The labels are not smoothed."
# section = "mismatch"
# problem = "cross_entropy_smoothed"
# causes = ["operator-missing", "scale-missing"]
# says = ["smooth"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <cfloat>

__inline__ __device__ float warpReduceMax(float val) {
    for (int offset = 16; offset > 0; offset /= 2) val = fmaxf(val, __shfl_down_sync(0xffffffff, val, offset));
    return __shfl_sync(0xffffffff, val, 0);
}

__inline__ __device__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) val += __shfl_down_sync(0xffffffff, val, offset);
    return __shfl_sync(0xffffffff, val, 0);
}

__global__ void cross_entropy_loss_kernel(const float* __restrict__ predictions, const int64_t* __restrict__ targets,
                                          float* __restrict__ total, int batch_size, int num_classes) {
    int warp_id = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (warp_id >= batch_size) return;
    const float* pred = predictions + warp_id * num_classes;
    float max_val = -FLT_MAX;
    for (int i = lane; i < num_classes; i += 32) max_val = fmaxf(max_val, pred[i]);
    max_val = warpReduceMax(max_val);
    float sum_exp = 0.0f;
    for (int i = lane; i < num_classes; i += 32) sum_exp += expf(pred[i] - max_val);
    sum_exp = warpReduceSum(sum_exp);
    if (lane == 0) {
        float loss = -(pred[targets[warp_id]] - max_val - logf(sum_exp));
        atomicAdd(total, loss / batch_size);
    }
}

torch::Tensor cross_entropy_cuda(torch::Tensor predictions, torch::Tensor targets) {
    auto total = torch::zeros({}, predictions.options());
    int batch_size = predictions.size(0);
    int threads = 128;
    int blocks = (batch_size * 32 + threads - 1) / threads;
    cross_entropy_loss_kernel<<<blocks, threads>>>(predictions.data_ptr<float>(), targets.data_ptr<int64_t>(),
        total.data_ptr<float>(), batch_size, predictions.size(1));
    return total;
}
"""

cpp_source = "torch::Tensor cross_entropy_cuda(torch::Tensor predictions, torch::Tensor targets);"

cross_entropy = load_inline(
    name="cross_entropy", cpp_sources=cpp_source, cuda_sources=cuda_source, functions=["cross_entropy_cuda"], verbose=True
)


class ModelNew(nn.Module):
    def __init__(self, smoothing):
        super(ModelNew, self).__init__()
        self.smoothing = smoothing
        self.cross_entropy = cross_entropy

    def forward(self, logits, target):
        return self.cross_entropy.cross_entropy_cuda(logits.contiguous(), target.contiguous())
