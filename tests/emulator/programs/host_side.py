"""Tensors of the host beside the device's: where factories put them, what copies, what refuses to mix."""

import numpy
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp = """
#include <torch/extension.h>
bool on_device(at::Tensor x) { return x.is_cuda(); }
std::vector<at::Tensor> made(at::Tensor x) {
  return {at::empty({2}, at::kFloat), at::zeros({2}, x.options()), at::zeros_like(x), x.cpu(), x.cuda(),
          at::ones({2}, at::device(at::kCUDA)), x.to(at::kCPU) + 1, at::ones({2}).to(x.device())};
}
at::Tensor doubled(at::Tensor x) { return x * 2; }
at::Tensor both(at::Tensor x, at::Tensor y) { return x + y; }
"""
ext = load_inline(name="host_side", cpp_sources=cpp, functions=["on_device", "made", "doubled", "both"])


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("table", torch.arange(3.0))
        self.forgotten = torch.ones(3)


def sides(*values):
    return [value.device.type for value in values]


def cases():
    torch.set_default_device(None)
    try:
        return _cases()
    finally:
        torch.set_default_device("cuda")


def _cases():
    host, there = torch.tensor([1.0, 2.0, 3.0]), torch.ones(3, device="cuda")
    model = Holder().cuda()
    with torch.device("cuda"):
        inside = torch.ones(2)
    host[1:] += 1
    filled = torch.zeros(3)
    filled.copy_(there * 2)
    picked = there[torch.tensor([0, 2])]
    return [
        (sides(host, host * 2, host[0], torch.empty_like(host), host.clone()), ["cpu"] * 5),
        (sides(there, there * 2, there[0], torch.empty_like(there), inside, picked), ["cuda"] * 6),
        (sides(host.cuda(), host.to("cuda:0"), host.to(there), host.type_as(there)), ["cuda"] * 4),
        (sides(there.cpu(), there.to("cpu"), there.to(host), filled), ["cpu"] * 4),
        (sides(torch.from_numpy(numpy.ones(2)), torch.randperm(4)), ["cpu", "cpu"]),
        (sides(torch.as_tensor(numpy.ones(2), device="cuda"), torch.randperm(4, device=0)), ["cuda", "cuda"]),
        (sides(torch.ones(2, device="cuda", dtype=torch.half).to(torch.float)), ["cuda"]),
        (sides(model.weight, model.table, model.forgotten), ["cuda", "cuda", "cpu"]),
        ([host.is_cuda, host.is_cpu, host.get_device(), there.get_device()], [False, True, -1, 0]),
        ([host.type(), there.type()], ["torch.FloatTensor", "torch.cuda.FloatTensor"]),
        ([ext.on_device(host), ext.on_device(there)], [False, True]),
        (sides(*ext.made(there)), ["cpu", "cuda", "cuda", "cpu", "cuda", "cuda", "cpu", "cuda"]),
        (sides(ext.doubled(host), ext.doubled(there)), ["cpu", "cuda"]),
        (host.to("cuda") * 2, torch.tensor([2.0, 6.0, 8.0], device="cuda")),
        (filled, torch.full((3,), 2.0)),
        (model.table, torch.tensor([0.0, 1.0, 2.0], device="cuda")),
        (there * torch.tensor(3.0), torch.full((3,), 3.0, device="cuda")),
        (picked, torch.ones(2, device="cuda")),
    ]


def refusals():
    there, host = torch.ones(3, device="cuda"), torch.ones(3, device="cpu")
    words = "Expected all tensors to be on the same device"
    return [
        (lambda: there + host, RuntimeError, words),
        (lambda: torch.matmul(host, there), RuntimeError, words),
        (lambda: torch.cat([there, host]), RuntimeError, words),
        (lambda: ext.both(there, host), RuntimeError, words),
    ]
