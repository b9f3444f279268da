# about = "Each bag takes the weights from the beginning of the array, not from its own offset."
# section = "mismatch"
# problem = "bag_weighted"
# causes = ["index-ignored", "index-off-by-one", "layout-misread", "wrong-axis", "bias-wrong-index"]
# says = ["weight|offset|ind"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

text = """
__global__ void weighted_bags(const long long* ids, const long long* offsets, const float* weights, const float* table,
                              float* out, int entries, int bags, int width) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int b = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= width || b >= bags) return;
    const long long first = offsets[b];
    const int count = (int)((b + 1 < bags ? offsets[b + 1] : entries) - first);
    float sum = 0.0f;
    for (int i = 0; i < count; ++i) sum = fmaf(weights[i], table[ids[first + i] * width + c], sum);
    out[b * width + c] = sum;
}

torch::Tensor weighted(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor table) {
    int bags = offsets.size(0), width = table.size(1);
    auto out = torch::empty({bags, width}, table.options());
    dim3 block(8, 8), grid((width + 7) / 8, (bags + 7) / 8);
    weighted_bags<<<grid, block>>>((const long long*)ids.data_ptr<int64_t>(), (const long long*)offsets.data_ptr<int64_t>(),
        weights.data_ptr<float>(), table.data_ptr<float>(), out.data_ptr<float>(), ids.size(0), bags, width);
    return out;
}
"""

weighted = load_inline(
    name="weighted_bags",
    cpp_sources="torch::Tensor weighted(torch::Tensor ids, torch::Tensor offsets, torch::Tensor weights, torch::Tensor table);",
    cuda_sources=text,
    functions=["weighted"],
)


class ModelNew(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, width, mode="sum")

    def forward(self, ids, offsets, weights):
        return weighted.weighted(ids.contiguous(), offsets.contiguous(), weights.contiguous(), self.table.weight)
