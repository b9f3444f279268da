# about = "Negative values are squared with the others; the reference takes them for zero."
# section = "mismatch"
# problem = "power_mean_channels"
# causes = ["activation-missing", "operator-missing", "clamp-missing"]
# says = ["relu|activation|negative|clamp|operator|bound"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = """
#include <torch/extension.h>

__global__ void power_mean_kernel(const float* x, const float* gain, float* out, int N, int C, int H, int W, int OH, int OW, int divisor) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= N * C * OH * OW) return;
    int ow = idx % OW;
    int oh = (idx / OW) % OH;
    int c = (idx / (OW * OH)) % C;
    int n = idx / (OW * OH * C);
    int h1 = min(oh * 2 + 3, H), w1 = min(ow * 2 + 3, W);
    float sum = 0.0f, squares = 0.0f;
    for (int h = oh * 2; h < h1; h++) {
        for (int w = ow * 2; w < w1; w++) {
            float v = x[((n * C + c) * H + h) * W + w];
            sum += v;
            squares += v * v;
        }
    }
    int count = (h1 - oh * 2) * (w1 - ow * 2);
    float strong = sqrtf(squares / count * 9.0f);
    out[((n * 2 * C + c) * OH + oh) * OW + ow] = strong * gain[c];
    out[((n * 2 * C + C + c) * OH + oh) * OW + ow] = sum / divisor * gain[C + c];
}

torch::Tensor power_mean(torch::Tensor x, torch::Tensor gain, int64_t divisor) {
    int N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    int OH = (H - 3 + 1) / 2 + 1, OW = (W - 3 + 1) / 2 + 1;
    auto out = torch::empty({N, 2 * C, OH, OW}, x.options());
    int total = N * C * OH * OW;
    power_mean_kernel<<<(total + 255) / 256, 256>>>(x.data_ptr<float>(), gain.data_ptr<float>(), out.data_ptr<float>(), N, C, H, W, OH, OW, divisor);
    return out;
}
"""

power_mean = load_inline(
    name="power_mean",
    cpp_sources="torch::Tensor power_mean(torch::Tensor x, torch::Tensor gain, int64_t divisor);",
    cuda_sources=cuda_source,
    functions=["power_mean"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, divisor):
        super().__init__()
        self.divisor = divisor
        self.gain = nn.Parameter(torch.rand(2 * channels) + 0.5)

    def forward(self, x):
        return power_mean.power_mean(x.contiguous(), self.gain, self.divisor)
