# about = "The teacher's own logarithm is left out, which gives a cross entropy, and the rows are summed."
# section = "mismatch"
# problem = "kl_batchmean"
# faults = [{causes = ["operator-missing", "log-missing"], says = ["entropy|log|target|teacher|missing|left out"]}, {causes = ["sum-for-mean", "wrong-divisor"], says = ["sum|mean|divi|batch"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#define BLOCK 128

__global__ void kl_div_kernel(const float* __restrict__ pred, const float* __restrict__ target, float* __restrict__ loss,
                              int batch, int dim) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float value = 0.0f;
    if (row < batch) {
        const float* p = pred + row * dim;
        const float* t = target + row * dim;
        float pm = p[0], tm = t[0];
        for (int i = 1; i < dim; i++) { pm = fmaxf(pm, p[i]); tm = fmaxf(tm, t[i]); }
        float ps = 0.0f, ts = 0.0f;
        for (int i = 0; i < dim; i++) { ps += expf(p[i] - pm); ts += expf(t[i] - tm); }
        float lse = pm + logf(ps);
        for (int i = 0; i < dim; i++) value -= expf(t[i] - tm) / ts * (p[i] - lse);
    }
    __shared__ float sdata[BLOCK];
    sdata[threadIdx.x] = value;
    __syncthreads();
    for (int s = BLOCK / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) sdata[threadIdx.x] += sdata[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(loss, sdata[0]);
}

torch::Tensor kl_div_forward(torch::Tensor pred, torch::Tensor target) {
    auto loss = torch::zeros({}, pred.options());
    int batch = pred.size(0);
    kl_div_kernel<<<(batch + BLOCK - 1) / BLOCK, BLOCK>>>(pred.data_ptr<float>(), target.data_ptr<float>(),
                                                        loss.data_ptr<float>(), batch, pred.size(1));
    return loss;
}
"""

kl_div = load_inline(
    name="kl_div",
    cpp_sources="torch::Tensor kl_div_forward(torch::Tensor pred, torch::Tensor target);",
    cuda_sources=cuda_source,
    functions=["kl_div_forward"],
    verbose=False,
    extra_cflags=[""],
    extra_ldflags=[""],
)


class ModelNew(nn.Module):
    def __init__(self):
        super(ModelNew, self).__init__()

    def forward(self, student, teacher):
        return kl_div.kl_div_forward(student.contiguous(), teacher.contiguous())
