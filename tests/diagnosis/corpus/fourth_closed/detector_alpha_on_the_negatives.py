# about = "Alpha weighs the negatives and 1 - alpha the positives."
# section = "mismatch"
# problem = "detector_loss"
# causes = ["weights-swapped", "weight-wrong-place", "wrong-coefficient", "wrong-divisor"]
# says = ["alpha|weight|swap|exchang|0\\.25|0\\.75|factor|coefficient|1 - "]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__device__ float focal_term(float z, bool hit, float alpha) {
    float p = 1.0f / (1.0f + expf(-z));
    float ce = fmaxf(z, 0.0f) - (hit ? z : 0.0f) + log1pf(expf(-fabsf(z)));
    float pt = hit ? p : 1.0f - p;
    float at = hit ? 1.0f - alpha : alpha;
    float q = 1.0f - pt;
    return at * q * q * ce;
}

__device__ float smooth_l1(float d, float beta) {
    float a = fabsf(d);
    return a < beta ? 0.5f * a * a / beta : a - 0.5f * beta;
}

__global__ void detector_loss_kernel(const float* logits, const float4* boxes, const int64_t* labels, const float4* targets,
                                     float* cls_out, float* box_out, int anchors, int classes, float alpha, float beta) {
    __shared__ float s_cls[128];
    __shared__ float s_box[128];
    __shared__ int s_pos[128];
    const int b = blockIdx.x;
    const int tid = threadIdx.x;
    float cls = 0.0f, box = 0.0f;
    int pos = 0;
    for (int a = tid; a < anchors; a += blockDim.x) {
        const int at = b * anchors + a;
        const int label = (int)labels[at];
        if (label < 0) continue;
        for (int c = 0; c < classes; ++c) cls += focal_term(logits[at * classes + c], label == c + 1, alpha);
        if (label > 0) {
            const float4 p = boxes[at], t = targets[at];
            box += smooth_l1(p.x - t.x, beta) + smooth_l1(p.y - t.y, beta) + smooth_l1(p.z - t.z, beta) +
                   smooth_l1(p.w - t.w, beta);
            pos++;
        }
    }
    s_cls[tid] = cls;
    s_box[tid] = box;
    s_pos[tid] = pos;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) {
            s_cls[tid] += s_cls[tid + s];
            s_box[tid] += s_box[tid + s];
            s_pos[tid] += s_pos[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) {
        const float count = (float)max(s_pos[0], 1);
        cls_out[b] = s_cls[0] / count;
        box_out[b] = s_box[0] / count;
    }
}

std::vector<torch::Tensor> detector_loss(torch::Tensor logits, torch::Tensor boxes, torch::Tensor labels,
                                         torch::Tensor targets, double alpha, double beta) {
    const int B = logits.size(0);
    auto cls = torch::empty({B}, logits.options());
    auto box = torch::empty({B}, logits.options());
    detector_loss_kernel<<<B, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        logits.data_ptr<float>(), reinterpret_cast<const float4*>(boxes.data_ptr<float>()), labels.data_ptr<int64_t>(),
        reinterpret_cast<const float4*>(targets.data_ptr<float>()), cls.data_ptr<float>(), box.data_ptr<float>(),
        logits.size(1), logits.size(2), (float)alpha, (float)beta);
    return {cls, box};
}
"""

header = """
#include <vector>
std::vector<torch::Tensor> detector_loss(torch::Tensor logits, torch::Tensor boxes, torch::Tensor labels,
                                         torch::Tensor targets, double alpha, double beta);
"""

op = load_inline(name="detector_loss_op", cpp_sources=header, cuda_sources=source, functions=["detector_loss"])


class ModelNew(nn.Module):
    def __init__(self, alpha, beta):
        super().__init__()
        self.alpha = alpha
        self.beta = beta

    def forward(self, logits, boxes, labels, targets):
        cls, box = op.detector_loss(logits.contiguous(), boxes.contiguous(), labels.contiguous(), targets.contiguous(),
                                    self.alpha, self.beta)
        return cls, box
