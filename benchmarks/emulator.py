"""What building for the emulator and running on it costs: `python -m benchmarks.emulator`.

Prints seconds. Builds, by each route, with the processor's seconds in brackets: cold (nothing cached),
after a change of the device code only, and from the cache. Runs, on two threads: kernels from NVIDIA's PTX,
from the rewritten source without checks, built for checks with checks off, and checked. The shared
preparation, once per user, is not counted.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from agent.build import nvcc
from agent.build.build_request import BuildRequest
from agent.build.toolchain import Toolchain
from agent.emulator.compile import build, toolchain
from agent.emulator.compile.assembly import Route, Workshop

REPEATS = 3
HOST = "torch::Tensor run(torch::Tensor a, torch::Tensor b);"
SIZES = {"group_norm": [(64, 32, 64, 64)] * 2, "gelu": [(1 << 23,)] * 2, "matmul": [(512, 512)] * 2}
KERNELS = {
    "group_norm": """
__device__ float block_sum(float v, float* shared) {
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffffu, v, o);
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = v;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < blockDim.x / 32; w++) sum += shared[w];
    __syncthreads();
    return sum;
}
__global__ void kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float shared[32];
    const float* in = x + (size_t)blockIdx.x * n;
    float* out = y + (size_t)blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i];
    const float mean = block_sum(sum, shared) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) squares += (in[i] - mean) * (in[i] - mean);
    const float scale = rsqrtf(block_sum(squares, shared) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = (in[i] - mean) * scale;
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    const int groups = a.size(0) * 8;
    kernel<<<groups, 256>>>(a.data_ptr<float>(), y.data_ptr<float>(), a.numel() / groups);
    return y;
}
""",
    "gelu": """
__global__ void kernel(const float* __restrict__ x, float* __restrict__ y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    kernel<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), y.data_ptr<float>(), a.numel());
    return y;
}
""",
    "matmul": """
__global__ void kernel(const float* a, const float* b, float* c, int n) {
    __shared__ float s[16][16], t[16][16];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        s[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        t[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += s[threadIdx.y][i] * t[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(a);
    const int n = a.size(0);
    const dim3 grid(n / 16, n / 16), block(16, 16);
    kernel<<<grid, block>>>(a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
""",
}
GUEST = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import torch_shim, torch
library = sys.argv[3]
torch_shim.install(sys.argv[2], lambda request: {"library": library})
module = torch.utils.cpp_extension.load_inline("k", [], functions=["run"])
tensors = [torch.randn(shape, device="cuda") for shape in json.loads(sys.argv[4])]
seconds = {}
for mode in ("off", "on"):
    torch_shim.check(mode == "on")
    times = []
    for _ in range(int(sys.argv[5])):
        started = time.perf_counter()
        module.run(*tensors)
        times.append(time.perf_counter() - started)
    seconds[mode] = min(times)
assert not [f for f in torch_shim.findings() if f["severity"] == "error"], torch_shim.findings()
print(json.dumps(seconds))
"""


def main() -> None:
    checked = toolchain.prepare()
    plain = toolchain.prepare(checked=False)
    routes: list[Route] = ["switched", "rewritten"] if nvcc.find() else ["rewritten"]
    with tempfile.TemporaryDirectory() as scratch:
        print(f"{f'build, median of {REPEATS}':<32}" + f"{'cold':>16}{'device changed':>16}{'cached':>16}")
        for name in KERNELS:
            for route in routes:
                times = build_seconds(Workshop(checked, Path(scratch), 120), name, route)
                print(f"{f'{name}, {route}':<32}" + "".join(f"{f'{w:.2f} ({c:.2f})':>16}" for w, c in times))
        print(f"\nrun, best of {REPEATS}      PTX   unchecked   built for checks   checked   ratio")
        for name in KERNELS:
            base = run_seconds(plain, name, Path(scratch), "rewritten")["off"]
            both = run_seconds(checked, name, Path(scratch), "rewritten")
            translated = run_seconds(checked, name, Path(scratch), routes[0])["off"]
            row = f"{translated:7.3f}   {base:9.3f}   {both['off']:16.3f}   {both['on']:7.3f}"
            print(f"{name:<16}{row}   {both['on'] / base:5.1f}")


def build_seconds(workshop: Workshop, name: str, route: Route) -> list[tuple[float, float]]:
    """Medians of wall and processor seconds: a cold build, one after a change of the kernel, a cached one."""
    times: list[list[tuple[float, float]]] = []
    for number in range(REPEATS):
        fresh = replace(workshop, cache=Path(tempfile.mkdtemp(dir=workshop.cache)))
        edited = KERNELS[name].replace("{\n", f"{{  // edit {number}\n", 1)
        times.append([timed(fresh, source, route) for source in (KERNELS[name], edited, edited)])
    columns = zip(*times, strict=True)
    return [(median(w for w, _ in column), median(c for _, c in column)) for column in columns]


def timed(workshop: Workshop, source: str, route: Route) -> tuple[float, float]:
    started, before = time.perf_counter(), os.times()
    built(workshop, source, route)
    after = os.times()
    used = sum(after[:4]) - sum(before[:4])
    return time.perf_counter() - started, used


def built(workshop: Workshop, source: str, route: Route) -> Path:
    request = BuildRequest(name="k", cpp_sources=(HOST,), cuda_sources=(source,), functions={"run": "run"})
    done = build.by_route(workshop, request, route)
    if done.library is None:
        raise SystemExit(f"the benchmark does not build: {done.findings}\n{done.log}")
    return done.library


def run_seconds(tools: Toolchain, name: str, scratch: Path, route: Route) -> dict[str, float]:
    """Seconds of one call with checks off and on, in a process that has torch and the torch_shim."""
    library = built(Workshop(tools, scratch / "runs", 120), KERNELS[name], route)
    place = scratch / "torch_shim"
    if not place.exists():
        torch_shim = Path(build.__file__).parents[2] / "torch_shim"
        shutil.copytree(torch_shim, place / "torch_shim", ignore=shutil.ignore_patterns("__pycache__"))
    arguments = [str(place), str(tools.runtime), str(library), json.dumps(SIZES[name]), str(REPEATS)]
    done = subprocess.run(
        [sys.executable, "-I", "-c", GUEST, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    seconds: dict[str, float] = json.loads(done.stdout)
    return seconds


if __name__ == "__main__":
    main()
