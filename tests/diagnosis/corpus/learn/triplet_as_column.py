# about = "The losses come back as a column, [rows, 1], where the reference gives [rows]."
# section = "mismatch"
# problem = "triplet"
# causes = ["wrong-shape", "keepdim-broadcast", "output-size"]
# says = ["75, 1|shape|size"]
# stage = ["verify", "run"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

code = """
__global__ void pair_distance(const float* x, const float* y, float* d, int rows, int width) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0.f;
    for (int c = 0; c < width; ++c) {
        float e = x[r * width + c] - y[r * width + c] + 1e-6f;
        s += e * e;
    }
    d[r] = sqrtf(s);
}

__global__ void margin_loss(const float* ap, const float* an, const float* pn, float* loss, int rows, float margin) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) loss[r] = fmaxf(ap[r] - fminf(an[r], pn[r]) + margin, 0.f);
}

torch::Tensor losses(torch::Tensor a, torch::Tensor p, torch::Tensor n, double margin) {
    int rows = a.size(0), width = a.size(1), blocks = (rows + 63) / 64;
    auto d = torch::empty({3, rows}, a.options());
    auto loss = torch::empty({rows, 1}, a.options());
    float* at = d.data_ptr<float>();
    pair_distance<<<blocks, 64>>>(a.data_ptr<float>(), p.data_ptr<float>(), at, rows, width);
    pair_distance<<<blocks, 64>>>(a.data_ptr<float>(), n.data_ptr<float>(), at + rows, rows, width);
    pair_distance<<<blocks, 64>>>(p.data_ptr<float>(), n.data_ptr<float>(), at + 2 * rows, rows, width);
    margin_loss<<<blocks, 64>>>(at, at + rows, at + 2 * rows, loss.data_ptr<float>(), rows, (float)margin);
    return loss;
}
"""

lib = load_inline(
    name="triplet_losses",
    cpp_sources="torch::Tensor losses(torch::Tensor a, torch::Tensor p, torch::Tensor n, double margin);",
    cuda_sources=code,
    functions=["losses"],
)


class ModelNew(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive, negative):
        return lib.losses(anchor.contiguous(), positive.contiguous(), negative.contiguous(), self.margin)
