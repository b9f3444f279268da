# about = "The penalty is scaled with the scores, and its slope is taken by batch instead of by head."
# section = "mismatch"
# problem = "attention_alibi"
# faults = [{causes = ["weight-wrong-place", "scale-doubled", "activation-order", "wrong-coefficient", "wrong-divisor"], says = ["scal|sqrt|root|factor|order|before|divi|head_size|penalty|distance|slope"]}, {causes = ["bias-wrong-index", "wrong-channel", "wrong-axis", "keepdim-broadcast", "index-ignored", "layout-misread"], says = ["head|batch|index|slope|dim|axis|stride"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

source = r"""
template <int LANES>
__device__ float warp_all_sum(float x) {
    for (int o = LANES / 2; o > 0; o >>= 1) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
}

__device__ float warp_all_max(float x) {
    for (int o = 16; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
}

// One warp for each query; every lane holds one key at a time.
__global__ void forward_kernel(const float* q, const float* k, const float* v, const float* slopes, float* y,
                               int batch, int heads, int length, int size) {
    int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x & 31;
    if (warp >= batch * heads * length) return;
    int i = warp % length, pair = warp / length;
    float slope = slopes[pair / heads];
    const float* query = q + (long)warp * size;
    const float* keys = k + (long)pair * length * size;
    const float* values = v + (long)pair * length * size;
    float scale = rsqrtf((float)size);

    float top = -INFINITY;
    float score = -INFINITY;
    if (lane <= i) {
        float s = 0.f;
        for (int c = 0; c < size; ++c) s = fmaf(query[c], keys[lane * size + c], s);
        score = (s - slope * (i - lane)) * scale;
    }
    top = warp_all_max(score);
    float weight = lane <= i ? __expf(score - top) : 0.f;
    float total = warp_all_sum<32>(weight);
    weight /= total;
    for (int c = 0; c < size; ++c) {
        float part = lane <= i ? weight * values[lane * size + c] : 0.f;
        part = warp_all_sum<32>(part);
        if (lane == 0) y[(long)warp * size + c] = part;
    }
}

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor slopes) {
    TORCH_CHECK(q.size(2) <= 32, "at most one key for each lane");
    auto y = torch::empty_like(q);
    int rows = q.size(0) * q.size(1) * q.size(2);
    forward_kernel<<<(rows + 3) / 4, 128>>>(q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(),
        slopes.data_ptr<float>(), y.data_ptr<float>(), q.size(0), q.size(1), q.size(2), q.size(3));
    return y;
}
"""

module = load_inline(
    name="alibi_warp",
    cpp_sources="torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor slopes);",
    cuda_sources=source,
    functions=["forward"],
)


class ModelNew(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-torch.arange(heads) * 0.8))

    def forward(self, q, k, v):
        return module.forward(q.contiguous(), k.contiguous(), v.contiguous(), self.slopes)
