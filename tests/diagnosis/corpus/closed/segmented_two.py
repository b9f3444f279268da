# about = "Exclusive within each segment, and every row uses the flags of the first row."
# section = "mismatch"
# problem = "segmented_cumsum"
# faults = [{causes = ["scan-exclusive"], says = ["exclusive"]}, {causes = ["index-ignored", "first-batch-only", "keepdim-broadcast"], says = ["row|first|batch|index|starts"]}]
# stage = ["verify"]

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
__global__ void scan_by_segment(const float* __restrict__ values, const int* __restrict__ head,
                                float* __restrict__ result, const int cols) {
    extern __shared__ float staged[];
    const int row = blockIdx.x;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) staged[c] = values[row * cols + c];
    __syncthreads();
    // Each thread serves the elements that are its own by walking back to the head of the segment.
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        float sum = 0.f;
        int k = c;
        while (k > 0 && head[k] == 0) {
            --k;
            sum += staged[k];
        }
        result[row * cols + c] = sum;
    }
}

torch::Tensor scan_segments(torch::Tensor values, torch::Tensor head) {
    const int rows = values.size(0);
    const int cols = values.size(1);
    auto result = torch::empty_like(values);
    scan_by_segment<<<rows, 128, cols * sizeof(float)>>>(values.data_ptr<float>(), head.data_ptr<int>(),
                                                         result.data_ptr<float>(), cols);
    return result;
}
"""

scan_ext = load_inline(
    name="scan_segments_ext",
    cpp_sources="torch::Tensor scan_segments(torch::Tensor values, torch::Tensor head);",
    cuda_sources=cuda_src,
    functions=["scan_segments"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x, starts):
        return scan_ext.scan_segments(x.contiguous(), starts.int().contiguous())
