"""Launches that a replay has to repeat as they were: of many blocks, and cooperative ones."""

import json
from pathlib import Path

import pytest
from e2e.commands import agent

REFERENCE = """
import torch
from torch import nn

rows = 61
columns = 50


class Model(nn.Module):
    def forward(self, x):
        return {expression}


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="ext", cpp_sources="torch::Tensor run(torch::Tensor x);", functions=["run"], cuda_sources=r'''
#include <cooperative_groups.h>
{kernel}
torch::Tensor run(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    int n = x.numel();
    const float* from = x.data_ptr<float>();
    float* to = y.data_ptr<float>();
    {launch}
    return y;
}}
''')


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x.contiguous())
"""
TANH = """__global__ void tanh_kernel(const float* x, float* y, int n) {
    int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]);
}"""
CENTRE = """__global__ void centre_kernel(const float* x, float* y, float* total, int n) {
    int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (int i = first; i < n; i += step) sum += x[i];
    atomicAdd(total, sum);
    cooperative_groups::this_grid().sync();
    for (int i = first; i < n; i += step) y[i] = x[i] - *total / n;
}"""
TOTAL = "auto made = torch::zeros({1}, x.options()); float* total = made.data_ptr<float>();\n"
COOPERATIVE = (
    TOTAL
    + "void* arguments[] = {&from, &to, &total, &n};\n"
    + "cudaLaunchCooperativeKernel((void*)centre_kernel, dim3(5), dim3(64), arguments);"
)


@pytest.mark.parametrize(("expression", "kernel", "launch"), [
    ("torch.tanh(x)", TANH, "tanh_kernel<<<n, 1>>>(from, to, n);"),
    ("torch.tanh(x)", TANH, "tanh_kernel<<<dim3((n + 99) / 100, 50), 2>>>(from, to, n);"),
    ("torch.tanh(x)", TANH, "tanh_kernel<<<3000, 256, 1024>>>(from, to, n);"),
    ("x - x.mean()", CENTRE, COOPERATIVE),
], ids=["a thread each", "two dimensions", "blocks to spare", "barrier of the grid"])  # fmt: skip
def test_a_right_kernel_is_verified(expression: str, kernel: str, launch: str, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE.format(expression=expression))
    (tmp_path / "candidate.py").write_text(CANDIDATE.format(kernel=kernel, launch=launch))
    done = agent("eval", "reference.py", "candidate.py", "--executor", "emulator", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    evaluation = json.loads(done.stdout)
    assert evaluation["status"] == "verified"
    assert evaluation["scope"]["shapes"] == "full"


@pytest.mark.parametrize(("launch", "said"), [
    (TOTAL + "centre_kernel<<<5, 64>>>(from, to, total, n);", "grid.sync() in a kernel that was not"),
    (COOPERATIVE.replace("dim3(5), dim3(64)", "dim3(1057), dim3(256)"), "1057 blocks of 256 threads at once"),
], ids=["ordinary launch", "too many blocks"])  # fmt: skip
def test_a_barrier_of_the_grid_that_a_gpu_refuses(launch: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(REFERENCE.format(expression="x - x.mean()"))
    (tmp_path / "candidate.py").write_text(CANDIDATE.format(kernel=CENTRE, launch=launch))
    done = agent("eval", "reference.py", "candidate.py", "--executor", "emulator", "--json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    evaluation = json.loads(done.stdout)
    assert evaluation["status"] == "runtime_error"
    assert said in evaluation["findings"][0]["message"]
