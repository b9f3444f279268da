# about = "The count of positives has no lower bound of one, so that the sample without positives divides by zero."
# section = "mismatch"
# problem = "detector_loss"
# causes = ["clamp-missing", "divide-by-zero", "overflow-to-nan", "clamp-bounds", "operator-missing"]
# says = ["clamp|bound|zero|nan|inf|positive|divi|count|max|at least"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <c10/cuda/CUDAStream.h>

constexpr int WARP = 32;

__inline__ __device__ float reduce(float v) {
    for (int d = WARP / 2; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

// sums[sample] = {focal, boxes, positives, -}; one warp per group of 32 anchors
__global__ void accumulate(const float* logits, const float* boxes, const int64_t* labels, const float* targets,
                           float4* sums, int anchors, int classes, float alpha, float beta) {
    const int a = blockIdx.x * WARP + threadIdx.x;
    const int n = blockIdx.y;
    float focal = 0.f, dist = 0.f, hits = 0.f;
    if (a < anchors) {
        const long i = (long)n * anchors + a;
        const int label = (int)labels[i];
        if (label >= 0) {
            for (int c = 0; c < classes; c++) {
                const float z = logits[i * classes + c];
                const float y = label == c + 1 ? 1.f : 0.f;
                const float u = y > 0.f ? -z : z;             // loss is softplus(u), 1 - p_t is sigmoid(u)
                const float miss = 1.f / (1.f + expf(-u));
                const float soft = u > 0.f ? u + log1pf(expf(-u)) : log1pf(expf(u));
                const float w = y > 0.f ? alpha : 1.f - alpha;
                focal += w * miss * miss * soft;
            }
        }
        if (label > 0) {
            hits = 1.f;
            for (int e = 0; e < 4; e++) {
                const float d = fabsf(boxes[i * 4 + e] - targets[i * 4 + e]);
                const float m = fminf(d, beta);
                dist += m * (d - 0.5f * m) / beta;
            }
        }
    }
    focal = reduce(focal);
    dist = reduce(dist);
    hits = reduce(hits);
    if (threadIdx.x == 0) {
        atomicAdd(&sums[n].x, focal);
        atomicAdd(&sums[n].y, dist);
        atomicAdd(&sums[n].z, hits);
    }
}

__global__ void finish(const float4* sums, float* focal, float* dist, int batch) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= batch) return;
    const float4 s = sums[n];
    const float count = s.z;
    focal[n] = s.x / count;
    dist[n] = s.y / count;
}

void losses(torch::Tensor logits, torch::Tensor boxes, torch::Tensor labels, torch::Tensor targets, torch::Tensor focal,
            torch::Tensor dist, double alpha, double beta) {
    const int batch = logits.size(0), anchors = logits.size(1);
    auto stream = c10::cuda::getCurrentCUDAStream();
    auto sums = torch::zeros({batch, 4}, logits.options());
    auto* packed = reinterpret_cast<float4*>(sums.data_ptr<float>());
    accumulate<<<dim3((anchors + WARP - 1) / WARP, batch), WARP, 0, stream>>>(
        logits.data_ptr<float>(), boxes.data_ptr<float>(), labels.data_ptr<int64_t>(), targets.data_ptr<float>(), packed,
        anchors, logits.size(2), alpha, beta);
    finish<<<(batch + 63) / 64, 64, 0, stream>>>(packed, focal.data_ptr<float>(), dist.data_ptr<float>(), batch);
}
"""
CPP = """
void losses(torch::Tensor logits, torch::Tensor boxes, torch::Tensor labels, torch::Tensor targets, torch::Tensor focal,
            torch::Tensor dist, double alpha, double beta);
"""
ext = load_inline("anchor_losses", CPP, CUDA, functions=["losses"])


class ModelNew(nn.Module):
    def __init__(self, alpha, beta):
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, logits, boxes, labels, targets):
        focal = torch.empty(logits.size(0), device=logits.device)
        dist = torch.empty_like(focal)
        ext.losses(logits.contiguous(), boxes.contiguous(), labels.contiguous(), targets.contiguous(), focal, dist,
                   self.alpha, self.beta)
        return focal, dist
