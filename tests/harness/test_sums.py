"""Right sums in whatever order are verified, and wrong ones are refused, on real kernels of the emulator."""

import pytest

from agent import config, problems
from agent.emulator.compile import toolchain
from agent.harness.admission import check
from agent.harness.judge import evaluate
from agent.harness.task.job import Job
from agent.records import Candidate, Evaluation, Problem, Status

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, INPUTS):
        return RESULT


def get_inputs():
    return [DRAWN]


def get_init_inputs():
    return []
"""
PROBLEMS = {
    "total": ("x", "x.sum()", "torch.rand(1 << 20)"),
    "squares": ("x, y", "((x - y) ** 2).mean()", "torch.rand(300, 1111), torch.rand(300, 1111)"),
    "hinge": ("x, y", "torch.relu(1 + x - y).mean()", "torch.rand(1056), torch.rand(1056)"),
    "before": ("x", "torch.cumsum(x, 1) - x", "torch.rand(96, 1000)"),
}
CUDA = r"""
#include <torch/extension.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

__global__ void total_kernel(const float* x, float* out, int n, int mode) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || (mode == 1 && blockIdx.x == 1234) || (mode == 2 && i == n - 1)) return;
    float v = x[i];
    if (mode == 3) v = __bfloat162float(__float2bfloat16(v));
    if (mode == 4) v = x[i == 777777 ? i + 1 : i] * (i == n - 1 ? 1.01f : 1.0f);
    atomicAdd(out, v);
}

// One block: each thread sums a part in half precision.
__global__ void half_kernel(const float* x, float* out, int n) {
    __half sum = __float2half(0.0f);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum = __hadd(sum, __float2half(x[i]));
    atomicAdd(out, __half2float(sum));
}

__global__ void squares_kernel(const float* x, const float* y, float* out, int n, int mode) {
    __shared__ float part[256];
    float sum = 0.0f;
    int last = mode == 1 ? n / 256 * 256 : n;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < last; i += gridDim.x * 256) {
        float d = x[i] - y[i];
        if (mode == 2) d = __half2float(__float2half(d));
        sum += d * d;
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0] / (mode == 3 ? (n + 255) / 256 * 256 : n));
}

// Each term is divided before it is added. Where x - y is small, the terms are ones.
__global__ void hinge_kernel(const float* x, const float* y, float* out, int n, int mode, float share) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || (mode == 2 && blockIdx.x == 7) || (mode == 3 && i == n - 1)) return;
    float v = fmaxf(1.0f + x[i] - y[i], 0.0f);
    if (mode == 4) v = __bfloat162float(__float2bfloat16(v));
    if (mode == 5) share = __half2float(__float2half(share));
    atomicAdd(out, v * share);
}

// A block for each row: inclusive sums of 256 values at a time, and what came before them.
__global__ void before_kernel(const float* x, float* y, int columns, int mode) {
    __shared__ float part[256];
    float carried = 0.0f;
    const float* row = x + (long)blockIdx.x * columns;
    for (int begin = 0; begin < columns; begin += 256) {
        int i = begin + threadIdx.x;
        part[threadIdx.x] = i < columns ? row[i] : 0.0f;
        __syncthreads();
        for (int step = 1; step < 256; step *= 2) {
            float more = threadIdx.x >= step ? part[threadIdx.x - step] : 0.0f;
            __syncthreads();
            part[threadIdx.x] += more;
            __syncthreads();
        }
        float earlier = threadIdx.x ? part[threadIdx.x - 1] : 0.0f;
        if (mode == 2) earlier = __half2float(__float2half(earlier));
        if (i < columns) y[(long)blockIdx.x * columns + i] = carried + earlier;
        if (mode != 1) carried += part[255];
        __syncthreads();
    }
}

torch::Tensor total(torch::Tensor x, int64_t mode) {
    auto out = torch::zeros({}, x.options());
    int n = x.numel();
    if (mode == 5) half_kernel<<<1, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
    else total_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, mode);
    return out;
}

torch::Tensor squares(torch::Tensor x, torch::Tensor y, int64_t mode) {
    auto out = torch::zeros({}, x.options());
    int n = x.numel();
    squares_kernel<<<64, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), n, mode);
    return out;
}

torch::Tensor hinge(torch::Tensor x, torch::Tensor y, int64_t mode) {
    auto out = torch::zeros({}, x.options());
    int n = x.numel();
    float share = 1.0f / (mode == 1 ? n + 1 : n);
    hinge_kernel<<<(n + 31) / 32, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), n,
                                        mode, share);
    return out;
}

torch::Tensor before(torch::Tensor x, int64_t mode) {
    auto y = torch::empty_like(x);
    before_kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1), mode);
    return y;
}
"""
CANDIDATE = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

cpp = '''
torch::Tensor total(torch::Tensor x, int64_t mode);
torch::Tensor squares(torch::Tensor x, torch::Tensor y, int64_t mode);
torch::Tensor hinge(torch::Tensor x, torch::Tensor y, int64_t mode);
torch::Tensor before(torch::Tensor x, int64_t mode);
'''
cuda = r'''CUDA'''
functions = ["total", "squares", "hinge", "before"]
sums = load_inline(name="sums", cpp_sources=cpp, cuda_sources=cuda, functions=functions)


class ModelNew(nn.Module):
    def forward(self, *inputs):
        return sums.NAME(*inputs, MODE)
"""


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Problem]:
    made = {}
    for name, (inputs, result, drawn) in PROBLEMS.items():
        path = tmp_path_factory.mktemp("sums") / f"{name}.py"
        source = REFERENCE.replace("INPUTS", inputs).replace("RESULT", result).replace("DRAWN", drawn)
        path.write_text(source)
        made[name] = problems.load(str(path))
    return made


def judged(problem: Problem, name: str, mode: int) -> Evaluation:
    cache = config.load({}, offline=True).settings.cache_dir
    toolchain.prepare(cache)
    shrunken = problems.shrink(problem)
    source = CANDIDATE.replace("CUDA", CUDA).replace("NAME", name).replace("MODE", str(mode))
    job = Job(
        problem=problem,
        candidate=Candidate(problem=problem.name, source=source),
        executor="emulator",
        candidate_timeout_s=60,
        cache_dir=str(cache),
        shrunken=shrunken,
        admission=check.probed(problem, lambda: shrunken, cache),
        envelope_limit_s=0,
    )
    return evaluate.evaluate(job, lambda what: None)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_right_sum_is_verified_in_its_order(stated: dict[str, Problem], name: str) -> None:
    evaluation = judged(stated[name], name, 0)
    assert evaluation.status is Status.VERIFIED, evaluation.findings
    assert evaluation.admission is not None
    assert evaluation.admission.survivors == ()
    assert evaluation.admission.kill_rate == 1


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param("total", 1, id="a block left out"),
        pytest.param("total", 2, id="the last element left out"),
        pytest.param("total", 3, id="terms in bfloat16"),
        pytest.param("total", 4, id="a wrong element"),
        pytest.param("total", 5, id="summed in half"),
        pytest.param("squares", 1, id="a tail left out"),
        pytest.param("squares", 2, id="differences in half"),
        pytest.param("squares", 3, id="divided by a padded count"),
        pytest.param("hinge", 1, id="divided by one more"),
        pytest.param("hinge", 2, id="a block of means left out"),
        pytest.param("hinge", 3, id="the last mean left out"),
        pytest.param("hinge", 4, id="divided terms in bfloat16"),
        pytest.param("hinge", 5, id="the share in half"),
        pytest.param("before", 1, id="nothing carried"),
        pytest.param("before", 2, id="partial sums in half"),
    ],
)
def test_a_wrong_sum_is_refused(stated: dict[str, Problem], name: str, mode: int) -> None:
    evaluation = judged(stated[name], name, mode)
    assert evaluation.status is Status.INCORRECT, evaluation.findings
