# about = "Of rows with equal keys the later one comes first."
# section = "mismatch"
# problem = "sort_rows_by_key"
# causes = ["tie-order"]
# says = ["tie|equal|stable|same key|order"]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="ordered_rows",
    cpp_sources="torch::Tensor order_rows(torch::Tensor keys, torch::Tensor features);",
    cuda_sources=r"""
constexpr int SIZE = 64;

// One block for each sample: an odd-even sort of its keys and places, then the rows are copied.
__global__ void order_kernel(const float* keys, const float* features, float* y, int length, int width) {
    __shared__ float key[SIZE];
    __shared__ int place[SIZE];
    int b = blockIdx.x, t = threadIdx.x;
    key[t] = t < length ? keys[b * length + t] : INFINITY;
    place[t] = t;
    __syncthreads();
    for (int step = 0; step < SIZE; ++step) {
        int i = 2 * t + step % 2;
        if (i + 1 < SIZE) {
            bool exchange = key[i] > key[i + 1] || (key[i] == key[i + 1] && place[i] > place[i + 1]);
            if (exchange) {
                float k = key[i];
                key[i] = key[i + 1];
                key[i + 1] = k;
                int p = place[i];
                place[i] = place[i + 1];
                place[i + 1] = p;
            }
        }
        __syncthreads();
    }
    for (int e = t; e < length * width; e += SIZE) {
        int i = e / width, c = e % width;
        int from = place[length - 1 - i];
        y[(b * length + i) * width + c] = features[(b * length + from) * width + c];
    }
}

torch::Tensor order_rows(torch::Tensor keys, torch::Tensor features) {
    TORCH_CHECK(keys.size(1) <= SIZE, "too long");
    auto y = torch::empty_like(features);
    order_kernel<<<keys.size(0), SIZE>>>(keys.data_ptr<float>(), features.data_ptr<float>(), y.data_ptr<float>(),
        keys.size(1), features.size(2));
    return y;
}
""",
    functions=["order_rows"],
)


class ModelNew(nn.Module):
    def forward(self, keys, features):
        return ext.order_rows(keys.contiguous(), features.contiguous())
