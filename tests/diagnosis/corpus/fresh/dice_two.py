# about = "Twice the overlap is forgotten, and the class weights are not read."
# section = "mismatch"
# problem = "dice_ignored"
# faults = [{causes = ["scale-missing", "wrong-coefficient", "wrong-divisor"], says = ["scale|factor|twice|2|double|coefficient|times|half"]}, {causes = ["weight-ignored", "operator-missing", "scale-missing"], says = ["weight|missing|ignored"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="dice_loss_cuda",
    cpp_sources="torch::Tensor dice_loss(torch::Tensor logits, torch::Tensor labels, torch::Tensor weights, double smooth);",
    cuda_sources=r"""
#define THREADS 128

__device__ float block_sum(float v) {
    __shared__ float parts[THREADS / 32];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = v;
    __syncthreads();
    v = 0.f;
    for (int i = 0; i < THREADS / 32; ++i) v += parts[i];
    __syncthreads();
    return v;
}

// One block goes through all pixels; sums per class are kept one class at a time.
__global__ void dice_kernel(const float* logits, const int64_t* labels, const float* weights, float* loss,
                            int N, int C, int P, float smooth) {
    float total = 0.f, weight_sum = 0.f;
    for (int c = 0; c < C; ++c) {
        float both = 0.f, either = 0.f;
        for (int i = threadIdx.x; i < N * P; i += THREADS) {
            int n = i / P, px = i % P;
            int label = (int)labels[i];
            if (label < 0) continue;
            const float* z = logits + n * C * P + px;
            float m = z[0];
            for (int k = 1; k < C; ++k) m = fmaxf(m, z[k * P]);
            float s = 0.f;
            for (int k = 0; k < C; ++k) s += expf(z[k * P] - m);
            float p = expf(z[c * P] - m) / s;
            either += p;
            if (label == c) {
                both += p;
                either += 1.f;
            }
        }
        both = block_sum(both);
        either = block_sum(either);
        float dice = (both + smooth) / (either + smooth);
        total += 1.f - dice;
        weight_sum += 1.f;
    }
    if (threadIdx.x == 0) *loss = total / weight_sum;
}

torch::Tensor dice_loss(torch::Tensor logits, torch::Tensor labels, torch::Tensor weights, double smooth) {
    auto loss = torch::empty({}, logits.options());
    dice_kernel<<<1, THREADS>>>(logits.data_ptr<float>(), labels.data_ptr<int64_t>(), weights.data_ptr<float>(), loss.data_ptr<float>(),
        logits.size(0), logits.size(1), logits.size(2), (float)smooth);
    return loss;
}
""",
    functions=["dice_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, smooth):
        super().__init__()
        self.smooth = smooth

    def forward(self, logits, labels, weights):
        return ext.dice_loss(logits.contiguous(), labels.contiguous(), weights.contiguous(), self.smooth)
