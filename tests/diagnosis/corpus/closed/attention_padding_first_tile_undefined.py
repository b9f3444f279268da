# about = "The first tile of keys is wholly masked: minus infinity minus minus infinity in the online softmax gives NaN."
# section = "mismatch"
# problem = "attention_padding"
# causes = ["overflow-to-nan", "nan-output", "non-finite-output"]
# says = ["nan|inf|mask|undefined"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

flash_source = r"""
#define TILE_K 8

__global__ void flash_masked(const float* Q, const float* K, const float* V, const bool* keep, float* O,
                             int H, int N, int M, int D) {
    extern __shared__ float sh[];
    float* kt = sh;
    float* vt = sh + TILE_K * D;
    const int bh = blockIdx.x;
    const int row = threadIdx.x;
    const bool* kp = keep + (bh / H) * M;
    float acc[32], m_i = -INFINITY, l_i = 0.f;
    for (int d = 0; d < D; d++) acc[d] = 0.f;
    for (int start = 0; start < M; start += TILE_K) {
        for (int e = threadIdx.x; e < TILE_K * D; e += blockDim.x) {
            bool inside = start + e / D < M;
            kt[e] = inside ? K[(bh * M + start) * D + e] : 0.f;
            vt[e] = inside ? V[(bh * M + start) * D + e] : 0.f;
        }
        __syncthreads();
        if (row < N) {
            float s[TILE_K], m_new = m_i;
            for (int j = 0; j < TILE_K; j++) {
                float x = 0.f;
                for (int d = 0; d < D; d++) x += Q[(bh * N + row) * D + d] * kt[j * D + d];
                bool live = start + j < M && kp[min(start + j, M - 1)];
                s[j] = live ? x * rsqrtf((float)D) : -INFINITY;
                m_new = fmaxf(m_new, s[j]);
            }
            float corr = __expf(m_i - m_new);
            l_i *= corr;
            for (int d = 0; d < D; d++) acc[d] *= corr;
            for (int j = 0; j < TILE_K; j++) {
                float p = __expf(s[j] - m_new);
                l_i += p;
                for (int d = 0; d < D; d++) acc[d] += p * vt[j * D + d];
            }
            m_i = m_new;
        }
        __syncthreads();
    }
    if (row < N)
        for (int d = 0; d < D; d++) O[(bh * N + row) * D + d] = acc[d] / l_i;
}

torch::Tensor flash_masked_forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor keep) {
    auto O = torch::empty_like(Q);
    int D = Q.size(3);
    flash_masked<<<Q.size(0) * Q.size(1), 32, 2 * TILE_K * D * sizeof(float)>>>(
        Q.data_ptr<float>(), K.data_ptr<float>(), V.data_ptr<float>(), keep.data_ptr<bool>(), O.data_ptr<float>(),
        Q.size(1), Q.size(2), K.size(2), D);
    return O;
}
"""

flash_masked = load_inline(
    name="flash_masked",
    cpp_sources="torch::Tensor flash_masked_forward(torch::Tensor Q, torch::Tensor K, torch::Tensor V, torch::Tensor keep);",
    cuda_sources=flash_source,
    functions=["flash_masked_forward"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v, keep):
        return flash_masked.flash_masked_forward(q.contiguous(), k.contiguous(), v.contiguous(), keep.contiguous())
