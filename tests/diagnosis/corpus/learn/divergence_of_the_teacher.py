# about = "The divergence is taken the other way round, of the teacher from the student."
# section = "mismatch"
# problem = "kl_batchmean"
# causes = ["operands-swapped"]
# says = ["swap|exchang|other way|revers|operand|order|place"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
// lane c of a warp holds class c; rows of up to 32 classes
__device__ float log_softmax_lane(float x) {
    float top = x;
    for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, o));
    float sum = expf(x - top);
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
    return x - top - logf(sum);
}

__global__ void distill(const float* a, const float* b, float* out, int rows, int classes) {
    int lane = threadIdx.x;
    float total = 0.f;
    for (int r = 0; r < rows; ++r) {
        float la = log_softmax_lane(lane < classes ? a[r * classes + lane] : -INFINITY);
        float lb = log_softmax_lane(lane < classes ? b[r * classes + lane] : -INFINITY);
        float p = expf(la);
        if (lane < classes && p > 0.f) total += p * (la - lb);
    }
    for (int o = 16; o; o >>= 1) total += __shfl_xor_sync(0xffffffff, total, o);
    if (lane == 0) out[0] = total / rows;
}

torch::Tensor distillation(torch::Tensor a, torch::Tensor b) {
    TORCH_CHECK(a.size(1) <= 32, "rows of up to 32 classes");
    auto out = torch::empty({}, a.options());
    distill<<<1, 32>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), a.size(0), a.size(1));
    return out;
}
"""

m = load_inline(
    name="distillation",
    cpp_sources="torch::Tensor distillation(torch::Tensor a, torch::Tensor b);",
    cuda_sources=source,
    functions=["distillation"],
)


class ModelNew(nn.Module):
    def forward(self, student, teacher):
        return m.distillation(student.contiguous(), teacher.contiguous())
