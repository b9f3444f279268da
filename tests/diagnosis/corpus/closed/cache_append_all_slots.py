# about = "The sum is divided by the number of slots, and the new keys are read with heads and width exchanged."
# section = "mismatch"
# problem = "cache_append"
# faults = [{causes = ["wrong-divisor"], says = ["divis|divid|count"]}, {causes = ["layout-misread", "transposed-operand"], says = ["layout|transpos|stride|dimension|exchang|axes|order"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="kv_fused",
    cpp_sources="void kv_fused(torch::Tensor cache, torch::Tensor fresh, torch::Tensor pos, torch::Tensor out);",
    cuda_sources=r"""
__global__ void kv_kernel(float* cache, const float* fresh, const int64_t* pos, float* out, int T, int H, int D) {
    int b = blockIdx.x;
    int p = (int)pos[b];
    float* base = cache + b * T * H * D;
    int i = threadIdx.x;
    if (i >= H * D) return;
    int h = i / D, d = i % D;
    base[p * H * D + i] = fresh[b * H * D + d * H + h];
    float total = 0.f;
    for (int t = 0; t <= p; ++t) total += base[t * H * D + i];
    out[b * H * D + i] = total / T;
}

void kv_fused(torch::Tensor cache, torch::Tensor fresh, torch::Tensor pos, torch::Tensor out) {
    int T = cache.size(1), H = cache.size(2), D = cache.size(3);
    kv_kernel<<<cache.size(0), H * D>>>(cache.data_ptr<float>(), fresh.data_ptr<float>(), pos.data_ptr<int64_t>(),
                                        out.data_ptr<float>(), T, H, D);
}
""",
    functions=["kv_fused"],
)


class ModelNew(nn.Module):
    def forward(self, cache, new, position):
        out = torch.empty_like(new)
        ext.kv_fused(cache, new.contiguous(), position, out)
        return cache, out
