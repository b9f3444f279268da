# about = "The teacher's logarithms themselves weigh the differences: their exponential is missing."
# section = "mismatch"
# problem = "kl_rows"
# causes = ["operator-missing", "activation-missing"]
# says = ["exp|log"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

src = r"""
__global__ void row_normalizer(const float* x, float* lse, int rows, int classes) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -INFINITY, sum = 0.f;
    for (int c = 0; c < classes; ++c) top = fmaxf(top, x[r * classes + c]);
    for (int c = 0; c < classes; ++c) sum += expf(x[r * classes + c] - top);
    lse[r] = top + logf(sum);
}

__global__ void row_divergence(const float* s, const float* t, const float* ls, const float* lt, float* out, int rows, int classes) {
    int r = blockIdx.x;
    float part = 0.f;
    for (int c = threadIdx.x; c < classes; c += 32) {
        float a = s[r * classes + c] - ls[r];
        float b = t[r * classes + c] - lt[r];
        part += b * (b - a);
    }
    for (int o = 16; o > 0; o >>= 1) part += __shfl_down_sync(0xffffffff, part, o);
    if (threadIdx.x == 0) out[r] = part;
}

torch::Tensor divergence(torch::Tensor s, torch::Tensor t) {
    int classes = s.size(2), rows = s.size(0) * s.size(1);
    auto ls = torch::empty({rows}, s.options()), lt = torch::empty({rows}, s.options());
    auto out = torch::empty({s.size(0), s.size(1)}, s.options());
    row_normalizer<<<(rows + 31) / 32, 32>>>(s.data_ptr<float>(), ls.data_ptr<float>(), rows, classes);
    row_normalizer<<<(rows + 31) / 32, 32>>>(t.data_ptr<float>(), lt.data_ptr<float>(), rows, classes);
    row_divergence<<<rows, 32>>>(s.data_ptr<float>(), t.data_ptr<float>(), ls.data_ptr<float>(), lt.data_ptr<float>(),
                                 out.data_ptr<float>(), rows, classes);
    return out;
}
"""

ext = load_inline(name="row_divergence", cpp_sources="torch::Tensor divergence(torch::Tensor s, torch::Tensor t);",
                  cuda_sources=src, functions=["divergence"])


class ModelNew(nn.Module):
    def forward(self, student, teacher):
        return ext.divergence(student.contiguous(), teacher.contiguous())
