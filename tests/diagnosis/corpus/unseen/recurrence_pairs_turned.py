# about = "The scan over pairs composes the two maps in the wrong order: the earlier multiplier meets the later term."
# section = "mismatch"
# problem = "affine_recurrence"
# causes = ["wrong-combine", "operands-swapped"]
# says = ["combin|order|swap|exchang|compos|earlier|multipl|step|element"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

struct Map { float m, c; };

__device__ Map compose(Map first, Map second) {
    Map r;
    r.m = first.m * second.m;
    r.c = first.m * second.c + first.c;
    return r;
}

// a block per series; Hillis-Steele in shared memory with two buffers
__global__ void recurrence(const float* a, const float* b, const float* h0, float* out, int steps, int width) {
    extern __shared__ float raw[];
    Map* ping = reinterpret_cast<Map*>(raw);
    Map* pong = ping + blockDim.x;
    int n = blockIdx.x / width, d = blockIdx.x % width, t = threadIdx.x;
    long at = ((long)n * steps + t) * width + d;
    Map mine = {1.f, 0.f};
    if (t < steps) { mine.m = a[at]; mine.c = b[at]; }
    ping[t] = mine;
    __syncthreads();
    for (int offset = 1; offset < blockDim.x; offset *= 2) {
        Map v = ping[t];
        if (t >= offset) v = compose(ping[t - offset], v);
        pong[t] = v;
        __syncthreads();
        Map* swap = ping; ping = pong; pong = swap;
    }
    if (t < steps) out[at] = ping[t].m * h0[blockIdx.x] + ping[t].c;
}

torch::Tensor forward(torch::Tensor a, torch::Tensor b, torch::Tensor h0) {
    auto out = torch::empty_like(a);
    int steps = a.size(1), width = a.size(2);
    TORCH_CHECK(steps <= 1024, "too many steps");
    int threads = (steps + 31) / 32 * 32;
    recurrence<<<a.size(0) * width, threads, 2 * threads * sizeof(Map)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), h0.data_ptr<float>(), out.data_ptr<float>(), steps, width);
    return out;
}
"""

scan_ext = load_inline(
    name="affine_scan",
    cpp_sources="torch::Tensor forward(torch::Tensor a, torch::Tensor b, torch::Tensor h0);",
    cuda_sources=cuda_src,
    functions=["forward"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, a, b, state):
        return scan_ext.forward(a.contiguous(), b.contiguous(), state.contiguous())
