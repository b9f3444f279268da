# about = "A right answer: a warp for each plane, then a thread for each channel; the minimum as a negated maximum."
# section = "right"
# problem = "channel_range"

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="range_of_planes",
    cpp_sources="torch::Tensor spread(torch::Tensor x, torch::Tensor factor);",
    cuda_sources=r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void planes_kernel(const float* x, float2* ends, int planes, int size) {
    int plane = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (plane >= planes) return;
    const float* from = x + (long)plane * size;
    float2 end = make_float2(-INFINITY, -INFINITY);
    for (int i = size - 1 - lane; i >= 0; i -= 32) {
        end.x = fmaxf(end.x, from[i]);
        end.y = fmaxf(end.y, -from[i]);
    }
    for (int o = 1; o < 32; o *= 2) {
        end.x = fmaxf(end.x, __shfl_xor_sync(0xffffffff, end.x, o));
        end.y = fmaxf(end.y, __shfl_xor_sync(0xffffffff, end.y, o));
    }
    if (lane == 0) ends[plane] = end;
}

__global__ void channels_kernel(const float2* ends, const float* factor, float* y, int batch, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    float2 end = ends[c];
    for (int b = 1; b < batch; ++b) {
        end.x = fmaxf(end.x, ends[b * channels + c].x);
        end.y = fmaxf(end.y, ends[b * channels + c].y);
    }
    y[c] = factor[c] * (end.x + end.y);
}

torch::Tensor spread(torch::Tensor x, torch::Tensor factor) {
    auto stream = at::cuda::getCurrentCUDAStream();
    int batch = x.size(0), channels = x.size(1), size = x.size(2) * x.size(3), planes = batch * channels;
    auto ends = torch::empty({planes, 2}, x.options());
    auto y = torch::empty({channels}, x.options());
    auto pointer = reinterpret_cast<float2*>(ends.data_ptr<float>());
    planes_kernel<<<(planes + 4) / 5, dim3(32, 5), 0, stream>>>(x.data_ptr<float>(), pointer, planes, size);
    channels_kernel<<<(channels + 31) / 32, 32, 0, stream>>>(pointer, factor.data_ptr<float>(), y.data_ptr<float>(),
        batch, channels);
    return y;
}
""",
    functions=["spread"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.factor = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x):
        return ext.spread(x.contiguous(), self.factor)
