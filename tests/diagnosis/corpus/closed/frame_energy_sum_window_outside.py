# about = "The squares are summed and not averaged, and the window is not squared with the samples."
# section = "mismatch"
# problem = "frame_energy"
# faults = [{causes = ["sum-for-mean", "wrong-divisor"], says = ["sum|mean|divis|divid|average"]}, {causes = ["activation-order", "square-omitted", "operator-missing"], says = ["square|window|order|weight"]}]
# stage = ["verify"]

import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="frames",
    cpp_sources="torch::Tensor frames(torch::Tensor x, torch::Tensor window, int64_t hop);",
    cuda_sources=r"""
__global__ void frames_kernel(const float* x, const float* window, float* y, int samples, int count, int frame, int hop, int total) {
    int job = (blockIdx.x * blockDim.x + threadIdx.x) / 16;
    int lane = threadIdx.x % 16;
    if (job >= total) return;
    const float* p = x + (job / count) * samples + (job % count) * hop;
    float s = 0.f;
    for (int j = lane; j < frame; j += 16) s += p[j] * p[j] * window[j];
    unsigned mask = 0xffffu << ((threadIdx.x & 16) ? 16 : 0);
    for (int o = 8; o > 0; o >>= 1) s += __shfl_down_sync(mask, s, o, 16);
    if (lane == 0) y[job] = s;
}

torch::Tensor frames(torch::Tensor x, torch::Tensor window, int64_t hop) {
    int samples = x.size(1), frame = window.size(0), count = (samples - frame) / hop + 1;
    auto y = torch::empty({x.size(0), count}, x.options());
    int total = y.numel();
    frames_kernel<<<(total * 16 + 127) / 128, 128>>>(x.data_ptr<float>(), window.data_ptr<float>(), y.data_ptr<float>(), samples, count, frame, hop, total);
    return y;
}
""",
    functions=["frames"],
)


class ModelNew(nn.Module):
    def __init__(self, frame, hop):
        super().__init__()
        self.hop = hop
        self.window = nn.Parameter(torch.rand(frame) + 0.2)

    def forward(self, x):
        return ext.frames(x.contiguous(), self.window, self.hop)
