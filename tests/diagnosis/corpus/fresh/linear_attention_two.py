# about = "Every query sees all keys, and the feature map is relu plus one."
# section = "mismatch"
# problem = "linear_attention_causal"
# faults = [{causes = ["mask-ignored", "operator-missing"], says = ["mask|causal|tril|missing|triang"]}, {causes = ["wrong-activation"], says = ["activation|elu|relu"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="linear_attention_cuda",
    cpp_sources="torch::Tensor linear_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
    cuda_sources=r"""
__device__ float phi(float x) { return fmaxf(x, 0.0f) + 1.0f; }

// One block per head, thread e owns column e of the state; the state stays in shared memory.
__global__ void linear_attention_kernel(const float* q, const float* k, const float* v, float* o, int T, int DK, int DV) {
    extern __shared__ float shared[];
    float* state = shared;            // [DK][DV]
    float* z = shared + DK * DV;      // [DK]
    int e = threadIdx.x;
    q += (size_t)blockIdx.x * T * DK;
    k += (size_t)blockIdx.x * T * DK;
    v += (size_t)blockIdx.x * T * DV;
    o += (size_t)blockIdx.x * T * DV;
    for (int i = e; i < DK * DV + DK; i += blockDim.x) shared[i] = 0.0f;
    __syncthreads();
    for (int t = 0; t < T; ++t) {
        if (e < DV)
            for (int i = 0; i < DK; ++i) state[i * DV + e] += phi(k[t * DK + i]) * v[t * DV + e];
        for (int i = e; i < DK; i += blockDim.x) z[i] += phi(k[t * DK + i]);
        __syncthreads();
    }
    for (int t = 0; t < T; ++t) {
        if (e < DV) {
            float num = 0.0f, den = 0.05f;
            for (int i = 0; i < DK; ++i) {
                float f = phi(q[t * DK + i]);
                num += f * state[i * DV + e];
                den += f * z[i];
            }
            o[t * DV + e] = num / den;
        }
        __syncthreads();
    }
}

torch::Tensor linear_attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
    int BH = q.size(0) * q.size(1), T = q.size(2), DK = q.size(3), DV = v.size(3);
    auto o = torch::empty_like(v);
    int threads = ((DV + 31) / 32) * 32;
    linear_attention_kernel<<<BH, threads, (DK * DV + DK) * sizeof(float)>>>(
        q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), o.data_ptr<float>(), T, DK, DV);
    return o;
}
""",
    functions=["linear_attention"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return ext.linear_attention(q.contiguous(), k.contiguous(), v.contiguous())
