# about = "The scores are not scaled and the table of the first head serves all heads."
# section = "mismatch"
# problem = "attention_distance"
# faults = [{causes = ["scale-missing", "operator-missing", "wrong-divisor"], says = ["scale|factor|divis|sqrt|multipl|missing|power"]}, {causes = ["wrong-channel", "index-ignored", "keepdim-broadcast", "bias-wrong-index", "layout-misread"], says = ["head|index|first|channel|row|broadcast"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
// A warp for each query; lanes stand for keys, then for the elements of a head.
__global__ void distance_attention(const float* q, const float* k, const float* v, const float* table, float* out,
                                   int H, int T, int D, int reach) {
    extern __shared__ float prob[];
    int t = blockIdx.x, h = blockIdx.y, b = blockIdx.z, lane = threadIdx.x;
    size_t head = ((size_t)b * H + h) * T * D;
    const float* qi = q + head + t * D;
    const float* bias = table;
    float scale = rsqrtf((float)D);
    float m = -INFINITY;
    for (int j = lane; j < T; j += 32) {
        float s = 0.f;
        for (int d = 0; d < D; ++d) s += qi[d] * k[head + j * D + d];
        int dist = t - j;
        dist = dist < -reach ? -reach : dist > reach ? reach : dist;
        s = s + bias[dist + reach];
        prob[j] = s;
        m = fmaxf(m, s);
    }
    for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, o));
    float total = 0.f;
    for (int j = lane; j < T; j += 32) {
        float e = __expf(prob[j] - m);
        prob[j] = e;
        total += e;
    }
    for (int o = 16; o; o >>= 1) total += __shfl_xor_sync(0xffffffffu, total, o);
    __syncwarp();
    for (int d = lane; d < D; d += 32) {
        float acc = 0.f;
        for (int j = 0; j < T; ++j) acc += prob[j] * v[head + j * D + d];
        out[head + t * D + d] = acc / total;
    }
}

torch::Tensor distance_attention_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor table, int64_t reach) {
    int B = q.size(0), H = q.size(1), T = q.size(2), D = q.size(3);
    auto out = torch::empty_like(q);
    distance_attention<<<dim3(T, H, B), 32, T * sizeof(float)>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        table.data_ptr<float>(), out.data_ptr<float>(), H, T, D, (int)reach);
    return out;
}
"""

cpp_source = "torch::Tensor distance_attention_forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor table, int64_t reach);"

ext = load_inline(
    name="distance_attention_forward_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["distance_attention_forward"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, heads, reach):
        super().__init__()
        self.reach = reach
        self.table = nn.Parameter(torch.randn(heads, 2 * reach + 1))

    def forward(self, q, k, v):
        return ext.distance_attention_forward(q.contiguous(), k.contiguous(), v.contiguous(), self.table, self.reach)
