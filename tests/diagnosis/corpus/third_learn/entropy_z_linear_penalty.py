# about = "The penalty is the logarithm of the normaliser itself, where the reference squares it."
# section = "mismatch"
# problem = "entropy_z_loss"
# causes = ["square-omitted", "operator-missing", "wrong-norm-order"]
# says = ["squar|power|missing|left out|penalty|norm"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <ATen/cuda/CUDAContext.h>

struct Row { float nll, smooth, weight, z; int kept; };

__device__ Row row_loss(const float* x, int64_t label, const float* w, int classes, int64_t ignored) {
    Row r = {0.f, 0.f, 0.f, 0.f, 0};
    if (label == ignored) return r;
    // online log-sum-exp
    float m = -INFINITY, s = 0.f, wsum = 0.f, wx = 0.f;
    for (int c = 0; c < classes; ++c) {
        float next = fmaxf(m, x[c]);
        s = s * expf(m - next) + expf(x[c] - next);
        m = next;
        wsum += w[c];
        wx += w[c] * x[c];
    }
    float lse = m + logf(s);
    r.nll = w[label] * (lse - x[label]);
    r.smooth = (wsum * lse - wx) / classes;
    r.weight = w[label];
    r.z = lse;
    r.kept = 1;
    return r;
}

__global__ void entropy(const float* x, const int64_t* y, const float* w, float* out, int n, int classes, int64_t ignored,
                        float smoothing, float penalty) {
    float nll = 0.f, weight = 0.f, z = 0.f;
    int kept = 0;
    for (int i = threadIdx.x; i < n; i += 32) {
        Row r = row_loss(x + i * classes, y[i], w, classes, ignored);
        nll += (1.f - smoothing) * r.nll + smoothing * r.smooth;
        weight += r.weight;
        z += r.z;
        kept += r.kept;
    }
    for (int o = 16; o > 0; o >>= 1) {
        nll += __shfl_xor_sync(0xffffffffu, nll, o);
        weight += __shfl_xor_sync(0xffffffffu, weight, o);
        z += __shfl_xor_sync(0xffffffffu, z, o);
        kept += __shfl_xor_sync(0xffffffffu, kept, o);
    }
    if (threadIdx.x == 0) out[0] = nll / weight + penalty * z / kept;
}

torch::Tensor entropy_loss(torch::Tensor x, torch::Tensor y, torch::Tensor w, int64_t ignored, double smoothing, double penalty) {
    auto out = torch::empty({}, x.options());
    entropy<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<int64_t>(), w.data_ptr<float>(),
        out.data_ptr<float>(), y.numel(), x.size(-1), ignored, smoothing, penalty);
    return out;
}
"""
entropy = load_inline(
    name="entropy_one_warp",
    cpp_sources="torch::Tensor entropy_loss(torch::Tensor x, torch::Tensor y, torch::Tensor w, int64_t ignored, double smoothing, double penalty);",
    cuda_sources=source,
    functions=["entropy_loss"],
)


class ModelNew(nn.Module):
    def __init__(self, smoothing, ignored, penalty):
        super().__init__()
        self.settings = ignored, smoothing, penalty

    def forward(self, logits, targets, weight):
        return entropy.entropy_loss(logits.contiguous(), targets.contiguous(), weight.contiguous(), *self.settings)
