# about = "The flow is subtracted where the reference adds it, and the error counts at every place."
# section = "mismatch"
# problem = "flow_warp"
# faults = [{causes = ["sign-error", "wrong-coordinate", "operands-swapped"], says = ["sign|negat|subtract|coordinate|minus|opposite|flow"]}, {causes = ["mask-ignored", "operator-missing", "wrong-divisor"], says = ["mask|inside|every|all|count|operator|divis|divid|keep"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

__global__ void warp_loss(const float* img, const float* flow, const float* tgt, float* out, float* loss, float eps, int C, int H, int W) {
    extern __shared__ float sums[];
    int b = blockIdx.x, t = threadIdx.x;
    float total = 0.0f, count = 0.0f;
    for (int p = t; p < H * W; p += blockDim.x) {
        float x = (p % W) - flow[(b * 2) * H * W + p];
        float y = (p / W) - flow[(b * 2 + 1) * H * W + p];
        int ix = (int)floorf(x), iy = (int)floorf(y);
        float tx = x - ix, ty = y - iy;
        float w[4] = {(1 - tx) * (1 - ty), tx * (1 - ty), (1 - tx) * ty, tx * ty};
        float e = 0.0f;
        for (int c = 0; c < C; c++) {
            float v = 0.0f;
            for (int k = 0; k < 4; k++) {
                int xx = ix + (k & 1), yy = iy + (k >> 1);
                if (xx >= 0 && xx < W && yy >= 0 && yy < H) v += w[k] * img[((b * C + c) * H + yy) * W + xx];
            }
            out[(b * C + c) * H * W + p] = v;
            float d = v - tgt[(b * C + c) * H * W + p];
            e += sqrtf(d * d + eps * eps) / C;
        }
        float keep = 1.0f;
        total += e * keep;
        count += keep;
    }
    sums[t] = total;
    sums[blockDim.x + t] = count;
    __syncthreads();
    if (t == 0) {
        for (int k = 1; k < blockDim.x; k++) {
            total += sums[k];
            count += sums[blockDim.x + k];
        }
        loss[b] = total / fmaxf(count, 1.0f);
    }
}

std::vector<torch::Tensor> warp_loss_cuda(torch::Tensor img, torch::Tensor flow, torch::Tensor tgt, double eps) {
    auto out = torch::empty_like(img);
    auto loss = torch::empty({img.size(0)}, img.options());
    int threads = 64;
    warp_loss<<<img.size(0), threads, 2 * threads * sizeof(float)>>>(img.data_ptr<float>(), flow.data_ptr<float>(), tgt.data_ptr<float>(),
        out.data_ptr<float>(), loss.data_ptr<float>(), (float)eps, img.size(1), img.size(2), img.size(3));
    return {out, loss};
}
"""

warp_loss = load_inline(
    name="warp_loss",
    cpp_sources="std::vector<torch::Tensor> warp_loss_cuda(torch::Tensor img, torch::Tensor flow, torch::Tensor tgt, double eps);",
    cuda_sources=cuda_src,
    functions=["warp_loss_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, eps):
        super(ModelNew, self).__init__()
        self.eps = eps

    def forward(self, image, flow, target):
        out, loss = warp_loss.warp_loss_cuda(image.contiguous(), flow.contiguous(), target.contiguous(), self.eps)
        return out, loss
