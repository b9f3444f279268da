# about = "Places run from the first to the last pixel centre, as with align_corners."
# section = "mismatch"
# problem = "deformable_points"
# causes = ["align-corners", "wrong-coordinate"]
# says = ["align|corner|half|0\\.5|cent|coordinate|place"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <c10/cuda/CUDAStream.h>

// Two steps: a table of four corners and weights for each point, then a warp per (query, head) that mixes.
__global__ void table(const float2* place, const float* logit, const float* gain, int4* corner, float4* share, int n,
                      int heads, int points, int rows, int columns) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* row = logit + i / points * points;
    float sum = 0.f;
    for (int p = 0; p < points; ++p) sum += expf(row[p] - logit[i]);
    const float w = gain[i / points % heads] / sum;
    const float x = place[i].x * (columns - 1), y = place[i].y * (rows - 1);
    const int c = __float2int_rd(x), r = __float2int_rd(y);
    const float u = x - c, v = y - r;
    const bool left = c >= 0 && c < columns, right = c + 1 >= 0 && c + 1 < columns;
    const bool up = r >= 0 && r < rows, down = r + 1 >= 0 && r + 1 < rows;
    const int at = r * columns + c;
    corner[i] = make_int4(up && left ? at : -1, up && right ? at + 1 : -1, down && left ? at + columns : -1,
                          down && right ? at + columns + 1 : -1);
    share[i] = make_float4(w * (1 - v) * (1 - u), w * (1 - v) * u, w * v * (1 - u), w * v * u);
}

__global__ void mix(const float* query, const float* value, const int4* corner, const float4* share, float* y, int queries,
                    int heads, int width, int points, int area, int items) {
    const int item = blockIdx.x * blockDim.y + threadIdx.y;     // (batch * queries + query) * heads + head
    if (item >= items) return;
    const int h = item % heads, b = item / (heads * queries);
    const float* image = value + (size_t)b * area * heads * width + h * width;
    const int step = heads * width;
    for (int d = threadIdx.x; d < width; d += 32) {
        float s = query[(size_t)item * width + d];
        for (int p = item * points; p < (item + 1) * points; ++p) {
            const int4 k = corner[p];
            const float4 w = share[p];
            if (k.x >= 0) s += w.x * image[k.x * step + d];
            if (k.y >= 0) s += w.y * image[k.y * step + d];
            if (k.z >= 0) s += w.z * image[k.z * step + d];
            if (k.w >= 0) s += w.w * image[k.w * step + d];
        }
        y[(size_t)item * width + d] = s;
    }
}

torch::Tensor sample(torch::Tensor query, torch::Tensor value, torch::Tensor place, torch::Tensor logit, torch::Tensor gain,
                     int64_t rows, int64_t columns) {
    const int batch = place.size(0), queries = place.size(1), heads = place.size(2), points = place.size(3);
    const int n = batch * queries * heads * points, items = n / points;
    auto corner = torch::empty({n, 4}, query.options().dtype(torch::kInt32));
    auto share = torch::empty({n, 4}, query.options());
    auto y = torch::empty_like(query);
    auto stream = c10::cuda::getCurrentCUDAStream();
    int4* k = reinterpret_cast<int4*>(corner.data_ptr<int>());
    float4* w = reinterpret_cast<float4*>(share.data_ptr<float>());
    table<<<(n + 63) / 64, 64, 0, stream>>>(reinterpret_cast<const float2*>(place.data_ptr<float>()), logit.data_ptr<float>(),
                                            gain.data_ptr<float>(), k, w, n, heads, points, rows, columns);
    mix<<<(items + 3) / 4, dim3(32, 4), 0, stream>>>(query.data_ptr<float>(), value.data_ptr<float>(), k, w,
                                                  y.data_ptr<float>(), queries, heads, value.size(3), points,
                                                  rows * columns, items);
    return y;
}
"""

CPP = """
torch::Tensor sample(torch::Tensor query, torch::Tensor value, torch::Tensor place, torch::Tensor logit, torch::Tensor gain,
                     int64_t rows, int64_t columns);
"""
sampler = load_inline(name="point_sampler", cpp_sources=CPP, cuda_sources=SOURCE, functions=["sample"])


class ModelNew(nn.Module):
    def __init__(self, rows, columns, heads):
        super().__init__()
        self.rows, self.columns = rows, columns
        self.gain = nn.Parameter(torch.rand(heads) + 0.5)

    def forward(self, query, value, places, logits):
        return sampler.sample(query.contiguous(), value.contiguous(), places.contiguous(), logits.contiguous(), self.gain,
                              self.rows, self.columns)
