"""Answers whose fault no wrong reference has, judged whole: the headline says where the error starts."""

from pathlib import Path

import pytest
from diagnosis.score import executor

from agent import problems
from agent.records import Candidate, Evaluation, Status

REFERENCE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).square().mean(1, keepdim=True)
        normed = (x - mean) * torch.rsqrt(variance + 1e-3)
        return torch.tanh(normed * self.weight)

def get_inputs():
    return [torch.randn(18, 70)]

def get_init_inputs():
    return [70]
"""
STATS = """
__global__ void row_stats(const float* x, float* mean, float* variance, int n) {
    int row = blockIdx.x, lane = threadIdx.x;
    float sum = 0.f, squares = 0.f;
    for (int k = lane; k < n; k += 32) sum += x[row * n + k];
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    for (int k = lane; k < n; k += 32) squares += (x[row * n + k] - sum / n) * (x[row * n + k] - sum / n);
    for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(~0u, squares, o);
    if (lane == 0) { mean[row] = sum / n; variance[row] = squares / n; }
}
"""
CENTRED = """
__global__ void centred(const float* x, const float* mean, const float* variance, float* y, int n) {
    int row = blockIdx.x;
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
        float noise = FAULT;
        y[row * n + k] = (x[row * n + k] - mean[row]) * rsqrtf(variance[row] + 1e-3f) + noise;
    }
}
"""
GATED = """
__global__ void gated(const float* normed, const float* weight, float* y, int n) {
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
        float noise = FAULT;
        y[blockIdx.x * n + k] = tanhf(normed[blockIdx.x * n + k] * weight[k]) + noise;
    }
}
"""
NOISE = "__sinf(17.f * k + 3.f * blockIdx.x * k)"
CANDIDATE = '''
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

SOURCE = """STATS CENTRED GATED
torch::Tensor run(torch::Tensor x, torch::Tensor weight) {
    int rows = x.size(0), n = x.size(1);
    auto mean = torch::empty({rows}, x.options()), variance = torch::empty({rows}, x.options());
    auto normed = torch::empty_like(x), y = torch::empty_like(x);
    row_stats<<<rows, 32>>>(x.data_ptr<float>(), mean.data_ptr<float>(), variance.data_ptr<float>(), n);
    centred<<<rows, 64>>>(
        x.data_ptr<float>(), mean.data_ptr<float>(), variance.data_ptr<float>(), normed.data_ptr<float>(), n);
    gated<<<rows, 64>>>(normed.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

module = load_inline(
    "parts", "torch::Tensor run(torch::Tensor x, torch::Tensor weight);", SOURCE, functions=["run"]
)

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return module.run(x, self.weight)
'''


def judged(folder: Path, centred: str, gated: str) -> Evaluation:
    reference = folder / "reference.py"
    reference.write_text(REFERENCE)
    problem = problems.load(str(reference))
    source = CANDIDATE.replace("STATS", STATS)
    source = source.replace("CENTRED", CENTRED.replace("FAULT", centred))
    source = source.replace("GATED", GATED.replace("FAULT", gated))
    return executor(60.0).evaluate(problem, Candidate(problem=problem.name, source=source, origin="file"))


@pytest.mark.parametrize(
    ("centred", "gated", "said"),
    [
        (
            "0.f", f"threadIdx.x >= 32 ? {NOISE} : 0.f",
            ("Rightly written of the reference: `mean` (line 11) and `variance` (line 12) by `row_stats`, "
             "`normed` (line 13) by `centred`. The error starts in kernel `gated`.",
             "The wrong elements were written by threads with threadIdx.x >= 32."),
        ),
        (
            NOISE, "0.f",
            ("The error starts in kernel `centred`: of `normed` (line 13) of the reference it writes ",
             " All that follows is right."),
        ),
    ],
    ids=["last", "middle"],
)  # fmt: skip
def test_the_kernel_is_named_in_which_the_error_starts(
    tmp_path: Path, centred: str, gated: str, said: tuple[str, ...]
) -> None:
    evaluation = judged(tmp_path, centred, gated)
    assert evaluation.status is Status.INCORRECT
    assert evaluation.headline is not None
    message = evaluation.headline.message
    assert evaluation.headline.kind == "unknown-cause", message
    assert message.startswith("Cause unknown: ")
    assert [part for part in said if part not in message] == []


def test_a_fault_in_a_kernel_between_others_is_explained_by_what_it_wrote(tmp_path: Path) -> None:
    evaluation = judged(tmp_path, "threadIdx.x == 0 && k == 0 ? 0.25f : 0.f", "0.f")
    assert evaluation.status is Status.INCORRECT
    assert evaluation.headline is not None
    assert "kernel `centred`" in evaluation.headline.message
