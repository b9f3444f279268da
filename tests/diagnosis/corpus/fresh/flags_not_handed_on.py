# about = "A flag is not merged with those before it, so that a maximum jumps over a border in later rounds."
# section = "mismatch"
# problem = "running_max_flags"
# causes = ["segments-ignored", "scan-not-reset", "wrong-combine", "mask-ignored"]
# says = ["segment|flag|start|reset|mask|border|combin|cross"]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
// Segmented Hillis-Steele scan: a pair (value, flag) per element, two buffers in shared memory.
__global__ void segmented_max(const float* x, const long* starts, float* out, int n) {
    extern __shared__ float values[];
    int* flags = (int*)(values + 2 * blockDim.x);
    int i = threadIdx.x, row = blockIdx.x;
    int from = 0, to = blockDim.x;
    values[i] = i < n ? x[row * n + i] : -INFINITY;
    flags[i] = i < n ? (int)starts[row * n + i] : 0;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        float v = values[from + i];
        int f = flags[from + i];
        if (i >= d) {
            if (!f) v = fmaxf(v, values[from + i - d]);
        }
        values[to + i] = v;
        flags[to + i] = f;
        __syncthreads();
        int swap = from; from = to; to = swap;
    }
    if (i < n) out[row * n + i] = values[from + i];
}

torch::Tensor run_max(torch::Tensor x, torch::Tensor starts) {
    int rows = x.size(0), n = x.size(1);
    auto out = torch::empty_like(x);
    int threads = 32;
    while (threads < n) threads *= 2;
    TORCH_CHECK(threads <= 1024, "rows of more than 1024 elements");
    size_t bytes = 2 * threads * (sizeof(float) + sizeof(int));
    segmented_max<<<rows, threads, bytes>>>(x.data_ptr<float>(), (const long*)starts.data_ptr<int64_t>(), out.data_ptr<float>(), n);
    return out;
}
"""

cpp_source = "torch::Tensor run_max(torch::Tensor x, torch::Tensor starts);"

ext = load_inline(
    name="run_max_ext",
    cpp_sources=cpp_source,
    cuda_sources=cuda_source,
    functions=["run_max"],
    verbose=False,
)


class ModelNew(nn.Module):
    def forward(self, x, starts):
        return ext.run_max(x.contiguous(), starts.contiguous())
