# about = "The windows are three apart where the stride is two, and the means come first."
# section = "mismatch"
# problem = "power_mean_channels"
# faults = [{causes = ["stride-ignored", "wrong-coordinate", "pool-window"], says = ["stride|step|apart|window|coordinate"]}, {causes = ["outputs-swapped", "operands-swapped", "layout-misread", "wrong-channel"], says = ["swap|exchang|order|half|halves|channel|each other|first"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>
#define STRIDE 3

__global__ void lp_avg(const float* x, const float* gain, float* out, int C, int H, int W, int OH, int OW, float divisor) {
    int n = blockIdx.z, c = blockIdx.y;
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= OH * OW) return;
    int y0 = (o / OW) * STRIDE, x0 = (o % OW) * STRIDE;
    float sum = 0.0f, sq = 0.0f, count = 0.0f;
    for (int dy = 0; dy < 3; ++dy)
        for (int dx = 0; dx < 3; ++dx)
            if (y0 + dy < H && x0 + dx < W) {
                float v = x[((n * C + c) * H + y0 + dy) * W + x0 + dx];
                sum += v;
                v = fmaxf(v, 0.0f);
                sq += v * v;
                count += 1.0f;
            }
    float mean = sum / divisor, root = sqrtf(sq * 9.0f / fmaxf(count, 1.0f));
    int first = (n * 2 * C + c) * OH * OW + o;
    int second = first + C * OH * OW;
    out[first] = mean * gain[c];
    out[second] = root * gain[C + c];
}

torch::Tensor lp_avg_pool(torch::Tensor x, torch::Tensor gain, int64_t divisor) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H - 2) / 2 + 1, OW = (W - 2) / 2 + 1;
    auto out = torch::empty({N, 2 * C, OH, OW}, x.options());
    dim3 grid((OH * OW + 31) / 32, C, N);
    lp_avg<<<grid, 32>>>(x.data_ptr<float>(), gain.data_ptr<float>(), out.data_ptr<float>(), C, H, W, OH, OW, (float)divisor);
    return out;
}
"""

lp_avg = load_inline(
    name="lp_avg_pool",
    cpp_sources="torch::Tensor lp_avg_pool(torch::Tensor x, torch::Tensor gain, int64_t divisor);",
    cuda_sources=cuda_source,
    functions=["lp_avg_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, divisor):
        super().__init__()
        self.divisor = divisor
        self.gain = nn.Parameter(torch.rand(2 * channels) + 0.5)

    def forward(self, x):
        return lp_avg.lp_avg_pool(x.contiguous(), self.gain, self.divisor)
