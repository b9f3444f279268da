"""What Python code asks of a GPU around its kernels; unwritten memory; a fault and what follows it."""

import torch
from torch.utils.cpp_extension import load_inline

cuda = """
#include <torch/extension.h>
__global__ void half_written(float* y, int n) {
    int i = threadIdx.x;
    if (i < n / 2) y[i] = 1.0f;
}
__global__ void wild(float* y) { y[threadIdx.x] = 1.0f; }

torch::Tensor half_of(int n) {
    auto y = torch::empty({n}, torch::device(torch::kCUDA).dtype(torch::kFloat32));
    half_written<<<1, n>>>(y.data_ptr<float>(), n);
    return y;
}
void too_many() { wild<<<1, 2048>>>(nullptr); TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed"); }
void null_write() {
    wild<<<1, 32>>>(nullptr);
}
"""
ext = load_inline(
    "face", "torch::Tensor half_of(int n); void too_many(); void null_write();", cuda,
    functions=["half_of", "too_many", "null_write"],
)  # fmt: skip


class Affine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.scale


def cases():
    x = torch.zeros(2, 3, device="cuda")
    device = x.device
    y = torch.ones(3, device=device)
    written = ext.half_of(8)
    stream = torch.cuda.current_stream()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    stop.record()
    torch.cuda.synchronize()
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()), torch.device("cuda"):
        made = torch.full((2,), 3.0)
    model = Affine().cuda().to("cuda:0")
    host = x.cpu()
    host += 1
    return [
        ((device.type, device.index, str(device)), ("cuda", 0, "cuda:0")),
        (isinstance(device, torch.device), True),
        ((x.is_cuda, x.get_device(), x.is_cpu), (True, 0, False)),
        (x.type(), "torch.cuda.FloatTensor"),
        (next(model.parameters()).is_cuda, True),
        (model(y.to(device, torch.float64)).dtype, torch.float64),
        (x, torch.zeros(2, 3)),
        (made, torch.tensor([3.0, 3.0])),
        (stream, torch.cuda.current_stream()),
        (start.elapsed_time(stop) >= 0, True),
        (
            (torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.get_device_capability()),
            (True, 1, (9, 0)),
        ),
        (torch.cuda.get_device_properties(0).multi_processor_count, 132),
        (written[:4], torch.ones(4)),
        (written[4:].isnan().all().item(), True),
        (torch.empty(5, device="cuda").isnan().all().item(), True),
        (torch.empty(0, 3).shape, (0, 3)),
        (torch.empty_like(x.t()).stride(), (1, 3)),
        (x.new_zeros(2).data_ptr() % 512, 0),
        (torch.rand(2, 2, device="cuda", generator=torch.Generator().manual_seed(0)).shape, (2, 2)),
        (torch.tensor([1.0, 2.0], device="cuda", requires_grad=True).requires_grad, True),
    ]


def refusals():
    def null_write():
        ext.null_write()
        torch.cuda.synchronize()

    return [
        (ext.too_many, RuntimeError, "launch failed"),
        (null_write, RuntimeError, "CUDA error: an illegal memory access was encountered"),
        (torch.cuda.synchronize, RuntimeError, "CUDA error: an illegal memory access was encountered"),
    ]
