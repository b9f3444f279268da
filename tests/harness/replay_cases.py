"""References and candidates for test_replay_check: one extension, many ways to use it or not to."""

from typing import NamedTuple

from agent.records import LibraryOps

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <vector>

__device__ float gelu_of(float v) { return 0.5f * v * (1.0f + erff(v * 0.7071067811865476f)); }

template <bool kGelu>
__global__ void scale_kernel(const float* x, const float* w, float* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = kGelu ? gelu_of(x[i] * w[i % n]) : x[i] * w[i % n];
}
__constant__ float held[128];
__global__ void held_kernel(const float* x, float* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = gelu_of(x[i] * held[i % n]);
}
__global__ void sum_kernel(const float* x, float* total, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) atomicAdd(total, x[i]);
}
__global__ void centre_kernel(const float* x, const float* total, float* y, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = x[i] - *total / m;
}
__global__ void divide_kernel(const float* x, float* y, float by, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = x[i] / by;
}
__global__ void bias_relu_kernel(float* y, const float* b, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = fmaxf(y[i] + b[i % n], 0.0f);
}
__global__ void nothing_kernel(const float* x) {}
__global__ void copy_kernel(const float* x, float* y, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m) y[i] = x[i];
}
// Every block needs the sum that all of them make: one launch, with a barrier of the grid.
__global__ void centre_at_once_kernel(const float* x, float* total, float* y, int m) {
    int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (int i = first; i < m; i += step) sum += x[i];
    atomicAdd(total, sum);
    cooperative_groups::this_grid().sync();
    for (int i = first; i < m; i += step) y[i] = x[i] - *total / m;
}
struct Values { float v[240]; };
__global__ void unpack_kernel(Values values, float* y, int offset, int m) {
    int i = threadIdx.x;
    if (offset + i < m) y[offset + i] = values.v[i];
}

int grid(int m) { return (m + 127) / 128; }
float* data(const torch::Tensor& t) { return t.data_ptr<float>(); }

torch::Tensor gelu(torch::Tensor x, torch::Tensor w) {
    auto y = torch::empty_like(x);
    int m = x.numel(), n = w.numel();
    auto kernel = scale_kernel<true>;
    kernel<<<grid(m), 128>>>(data(x), data(w), data(y), n, m);
    return y;
}
torch::Tensor tiny_blocks(torch::Tensor x, torch::Tensor w) {
    auto y = torch::empty_like(x);
    int m = x.numel(), n = w.numel();
    scale_kernel<true><<<(m + 1) / 2, 2>>>(data(x), data(w), data(y), n, m);
    return y;
}
torch::Tensor scaled(torch::Tensor x, torch::Tensor w) {
    auto y = torch::empty_like(x);
    scale_kernel<false><<<grid(x.numel()), 128>>>(data(x), data(w), data(y), w.numel(), x.numel());
    return y;
}
torch::Tensor held_gelu(torch::Tensor x, torch::Tensor w) {
    cudaMemcpyToSymbol(held, data(w), w.numel() * sizeof(float), 0, cudaMemcpyDeviceToDevice);
    auto y = torch::empty_like(x);
    held_kernel<<<grid(x.numel()), 128>>>(data(x), data(y), w.numel(), x.numel());
    return y;
}
torch::Tensor centred(torch::Tensor x, bool by_memset) {
    static torch::Tensor scratch = torch::empty({1}, x.options());
    auto total = by_memset ? scratch : torch::zeros({1}, x.options());
    if (by_memset) cudaMemsetAsync(data(total), 0, sizeof(float));
    int m = x.numel();
    sum_kernel<<<grid(m), 128>>>(data(x), data(total), m);
    auto y = torch::empty_like(x);
    centre_kernel<<<grid(m), 128>>>(data(x), data(total), data(y), m);
    return y;
}
torch::Tensor centred_at_once(torch::Tensor x) {
    auto total = torch::zeros({1}, x.options());
    auto y = torch::empty_like(x);
    int m = x.numel();
    const float* from = data(x);
    float *sum = data(total), *to = data(y);
    void* arguments[] = {&from, &sum, &to, &m};
    cudaLaunchCooperativeKernel((void*)centre_at_once_kernel, dim3(6), dim3(64), arguments);
    return y;
}
torch::Tensor divided(torch::Tensor x, double by) {
    auto y = torch::empty_like(x);
    divide_kernel<<<grid(x.numel()), 128>>>(data(x), data(y), (float)by, x.numel());
    return y;
}
torch::Tensor bias_relu(torch::Tensor y, torch::Tensor b) {
    bias_relu_kernel<<<grid(y.numel()), 128>>>(data(y), data(b), b.numel(), y.numel());
    return y;
}
torch::Tensor nothing(torch::Tensor x) {
    nothing_kernel<<<1, 32>>>(data(x));
    return x;
}
torch::Tensor copied(torch::Tensor x) {
    auto y = torch::empty_like(x);
    copy_kernel<<<grid(x.numel()), 128>>>(data(x), data(y), x.numel());
    return y;
}
torch::Tensor library_gelu(torch::Tensor x, torch::Tensor w) {
    nothing_kernel<<<1, 32>>>(data(x));
    return at::gelu(x * w);
}
std::vector<float> on_host(const torch::Tensor& x, const torch::Tensor& w) {
    std::vector<float> y(x.numel());
    for (int i = 0; i < x.numel(); i++) {
        float v = data(x)[i] * data(w)[i % w.numel()];
        y[i] = 0.5f * v * (1.0f + erff(v * 0.7071067811865476f));
    }
    return y;
}
torch::Tensor host_gelu(torch::Tensor x, torch::Tensor w) {
    auto made = on_host(x, w);
    auto y = torch::empty_like(x);
    cudaMemcpy(data(y), made.data(), made.size() * sizeof(float), cudaMemcpyHostToDevice);
    return copied(y);
}
torch::Tensor passed_gelu(torch::Tensor x, torch::Tensor w) {
    auto made = on_host(x, w);
    auto y = torch::empty_like(x);
    for (int offset = 0; offset < x.numel(); offset += 240) {
        Values values{};
        for (int i = 0; i < 240 && offset + i < x.numel(); i++) values.v[i] = made[offset + i];
        unpack_kernel<<<1, 256>>>(values, data(y), offset, x.numel());
    }
    return y;
}
struct AtLoad { AtLoad() { if (held[0] == 0) held[0] = 1; } };
static AtLoad at_load;
"""
DECLARED = """
torch::Tensor gelu(torch::Tensor x, torch::Tensor w); torch::Tensor scaled(torch::Tensor x, torch::Tensor w);
torch::Tensor held_gelu(torch::Tensor x, torch::Tensor w);
torch::Tensor tiny_blocks(torch::Tensor x, torch::Tensor w);
torch::Tensor centred(torch::Tensor x, bool by_memset);
torch::Tensor centred_at_once(torch::Tensor x);
torch::Tensor divided(torch::Tensor x, double by); torch::Tensor bias_relu(torch::Tensor y, torch::Tensor b);
torch::Tensor nothing(torch::Tensor x); torch::Tensor copied(torch::Tensor x);
torch::Tensor library_gelu(torch::Tensor x, torch::Tensor w);
torch::Tensor host_gelu(torch::Tensor x, torch::Tensor w);
torch::Tensor passed_gelu(torch::Tensor x, torch::Tensor w);
"""
NAMES = [
    "gelu", "scaled", "held_gelu", "centred", "divided", "bias_relu", "nothing", "copied", "library_gelu",
    "host_gelu", "passed_gelu", "centred_at_once", "tiny_blocks",
]  # fmt: skip
HEAD = f"""import json
from pathlib import Path
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
ext = load_inline(name="ext", cpp_sources={DECLARED!r}, cuda_sources={SOURCE!r}, functions={NAMES!r})
CALLS = 0
"""
PARTS = {
    "gelu": ("(n)", "self.weight = nn.Parameter(torch.randn(n))", "F.gelu(x * self.weight)"),
    "centre": ("(n)", "pass", "x - x.mean()"),
    "largest": ("(n)", "pass", "x / x.abs().max()"),
    "linear": ("(n)", "self.fc = nn.Linear(n, 24)", "F.relu(self.fc(x))"),
    "total": ("(n)", "pass", "x.sum()"),
}


def module(name: str, setup: str, forward: str) -> str:
    body = "\n".join(f"        {line}" for line in forward.splitlines())
    return (
        f"class {name}(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        {setup}\n"
        f"    def forward(self, x):\n{body}\n"
    )


def reference(kind: str) -> str:
    head = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    tail = "def get_inputs():\n    return [torch.randn(37, 70)]\ndef get_init_inputs():\n    return [70]\n"
    return head + module("Model", PARTS[kind][1], "return " + PARTS[kind][2]) + tail


class Case(NamedTuple):
    name: str
    kind: str
    """Of the reference."""
    forward: str
    refused: str | None = None
    """Words of the refusal; None where the kernels do the work."""
    setting: LibraryOps = "gemm-conv"

    @property
    def candidate(self) -> str:
        return HEAD + module("ModelNew", PARTS[self.kind][1], self.forward)


MATMUL = "y = x @ self.fc.weight.t()\nreturn ext.bias_relu(y, self.fc.bias)"
PACKED = """if not hasattr(self, 'packed'):
    self.packed = torch.exp(torch.log(self.weight * self.weight) / 2) * torch.sign(self.weight)
return ext.gelu(x, self.packed)"""
GHOST = "y = F.gelu(x * self.weight)\nreturn ext.copied(y) if x.numel() < 0 else y + 0 * ext.nothing(x)"
FORGED = """y = F.gelu(x * self.weight)
ext.nothing(x)
kept = Path.write_text
def write(path, text, *rest):
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if line['do'] == 'operator' and line['name'] == 'gelu':
            line.update(name='clone', overload='default', keywords={})
        if line['do'] == 'launch':
            line['entry'][1] += 16
    return kept(path, chr(10).join(json.dumps(line) for line in lines), *rest)
Path.write_text = write
return y"""
TOTAL = "total = sum(map(sum, x.tolist()))\nreturn ext.divided(torch.ones_like(x[0, 0]), 1 / total)"
HONEST = (
    Case("elementwise", "gelu", "return ext.gelu(x.contiguous(), self.weight)"),
    # 1,295 blocks: more than can be on the device at once, as a cooperative launch would need.
    Case("many blocks", "gelu", "return ext.tiny_blocks(x, self.weight)"),
    Case("barrier of the grid", "centre", "return ext.centred_at_once(x)"),
    Case("constant memory", "gelu", "return ext.held_gelu(x, self.weight)"),
    Case("packed parameters", "gelu", PACKED),
    Case("atomics into zeros", "centre", "return ext.centred(x, False)"),
    Case("scratch and memset", "centre", "return ext.centred(x, True)"),
    Case("scalar read back", "largest", "return ext.divided(x, x.abs().max().item())"),
    Case("product of torch", "linear", MATMUL),
    Case("any operator", "gelu", "return F.gelu(ext.scaled(x, self.weight))", setting="any"),
    Case(
        "input in another layout", "gelu", "return ext.gelu(x.t().contiguous().t().contiguous(), self.weight)"
    ),
)
BY_TORCH = "written by torch's gelu"
BY_HOST = "host code works out values"
ATTACKS = (
    Case("gelu in Python", "gelu", "ext.nothing(x)\nreturn F.gelu(x * self.weight)", BY_TORCH),
    Case("gelu in C++", "gelu", "return ext.library_gelu(x, self.weight)", BY_TORCH),
    Case("copies torch's result", "gelu", "return ext.copied(F.gelu(x * self.weight))", "part of the result"),
    Case("no launch", "gelu", "return F.gelu(x * self.weight)", "launched no CUDA kernel"),
    Case("ghost branch", "gelu", GHOST, "does not allow"),
    Case("host loop", "gelu", "return ext.host_gelu(x, self.weight)", "bytes written by host code"),
    Case("hidden in arguments", "gelu", "return ext.passed_gelu(x, self.weight)", BY_HOST),
    Case("forged", "gelu", FORGED, "a launch that enters at"),
    Case("product under none", "linear", MATMUL, "torch's mm, which --library-ops none", "none"),
    Case("not needed", "gelu", "ext.nothing(x)\nreturn F.gelu(x * self.weight)", "still right", "any"),
    Case("small result by value", "total", TOTAL, BY_HOST),
)  # fmt: skip
