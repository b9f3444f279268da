# about = "Divides every bin by the same four elements, and every sample is the first one."
# section = "mismatch"
# problem = "adaptive_avg"
# faults = [{causes = ["pool-divisor", "wrong-divisor"], says = ["divis|divid|count|factor"]}, {causes = ["first-batch-only", "index-ignored"], says = ["batch|sample|first"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
// A warp for each bin.
__global__ void bins(const float* x, float* y, int C, int H, int W, int OH, int OW, float inv) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    int n = blockIdx.y;
    if (warp >= C * OH * OW) return;
    int ow = warp % OW, oh = warp / OW % OH, c = warp / (OW * OH);
    int h0 = oh * H / OH, h1 = ((oh + 1) * H + OH - 1) / OH;
    int w0 = ow * W / OW, w1 = ((ow + 1) * W + OW - 1) / OW;
    int width = w1 - w0, area = (h1 - h0) * width;
    float s = 0.f;
    for (int k = lane; k < area; k += 32) s += x[((long)c * H + h0 + k / width) * W + w0 + k % width];
    for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffffu, s, o);
    if (lane == 0) y[(long)n * C * OH * OW + warp] = s * inv;
}

torch::Tensor pool_bins(torch::Tensor x, int64_t oh, int64_t ow) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto y = torch::empty({N, C, oh, ow}, x.options());
    float inv = 1.f / ((H / oh) * (W / ow));
    dim3 grid((C * oh * ow + 3) / 4, N);
    bins<<<grid, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), C, H, W, oh, ow, inv);
    return y;
}
"""

ext = load_inline(
    name="pool_bins",
    cpp_sources="torch::Tensor pool_bins(torch::Tensor x, int64_t oh, int64_t ow);",
    cuda_sources=CUDA,
    functions=["pool_bins"],
)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.height, self.width = size

    def forward(self, x):
        return ext.pool_bins(x.contiguous(), self.height, self.width)
