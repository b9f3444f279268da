# about = "Divides by the length and not by its root, and the longest run is counted one short."
# section = "mismatch"
# problem = "run_lengths"
# faults = [{causes = ["root-omitted", "operator-missing", "wrong-divisor"], says = ["root|sqrt|divis|divid"]}, {causes = ["index-off-by-one", "scan-off-by-one", "constant-added", "scan-exclusive", "last-element-left-out"], says = ["one|1|exclusive|constant|added"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = """
#include <torch/extension.h>

__global__ void row_runs(const float* x, float* y, int64_t* longest, float threshold, int rows, int steps) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        int start = 0;
        int best = 0;
        bool before = x[r * steps] > threshold;
        for (int t = 0; t < steps; t++) {
            float v = x[r * steps + t];
            bool now = v > threshold;
            if (now != before) start = t;
            before = now;
            float length = t - start + 1;
            y[r * steps + t] = v / length;
            best = max(best, t - start);
        }
        longest[r] = best;
    }
}

std::vector<torch::Tensor> row_runs_cuda(torch::Tensor x, float threshold) {
    auto y = torch::empty_like(x);
    auto longest = torch::empty({x.size(0)}, x.options().dtype(torch::kInt64));
    row_runs<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>(), longest.data_ptr<int64_t>(), threshold, x.size(0), x.size(1));
    return {y, longest};
}
"""

row_runs = load_inline(
    name="row_runs",
    cpp_sources="std::vector<torch::Tensor> row_runs_cuda(torch::Tensor x, float threshold);",
    cuda_sources=cuda_src,
    functions=["row_runs_cuda"],
)


class ModelNew(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x):
        y, longest = row_runs.row_runs_cuda(x.contiguous(), self.threshold)
        return y, longest
