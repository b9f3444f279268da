"""What is judged on request, and what is recorded of a verified candidate, on the emulator."""

from functools import cache
from pathlib import Path

import pytest

from agent import config, problems
from agent.executors import JudgeOptions, LocalExecutor, local
from agent.records import Candidate, Evaluation, Problem, Request, Status

PROBLEM = Path(__file__).resolve().parents[1] / "integrity" / "problems" / "relu_square.py"
HEAD = """
import torch
from torch import nn
from torch.utils.cpp_extension import load_inline

ext = load_inline(
    name="relu_square",
    cpp_sources="torch::Tensor relu_square(torch::Tensor x);",
    cuda_sources=r'''
#include <ATen/cuda/CUDAContext.h>

__global__ void relu_square_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0.f ? x[i] * x[i] : 0.f;
}

torch::Tensor relu_square(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = COUNT;
    if (n > 0)
        relu_square_kernel<<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
''',
    functions=["relu_square"],
)
"""
PLAIN = """

class ModelNew(nn.Module):
    def forward(self, x):
        return ext.relu_square(x.contiguous())
"""
OPERATOR = """

@torch.library.custom_op("own::relu_square", mutates_args=(), device_types="cuda")
def relu_square(x: torch.Tensor) -> torch.Tensor:
    return ext.relu_square(x.contiguous())


@relu_square.register_fake
def _(x):
    return torch.empty_like(x)


def keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def backward(ctx, grad):
    return grad * 2 * torch.relu(ctx.saved_tensors[0])


relu_square.register_autograd(backward, setup_context=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda and x.device.type == "cuda"
        return relu_square(x)
"""


def source(rest: str, count: str = "x.numel()") -> str:
    return HEAD.replace("COUNT", count) + rest


@cache
def problem() -> Problem:
    return problems.load(str(PROBLEM))


def judged(text: str, *requests: Request, full: bool = False) -> Evaluation:
    cache_dir = config.load({}, offline=True).settings.cache_dir
    options = JudgeOptions(candidate_timeout_s=120, requests=requests, protocol="full" if full else "quick")
    executor = LocalExecutor("emulator", cache_dir=cache_dir, options=options)
    job = executor.job(problem(), Candidate(problem="relu_square", source=text, origin="file"))
    # A busy machine makes every probe all the same.
    return local.judged(job.model_copy(update={"envelope_limit_s": 100.0}), lambda what: None)


def test_an_operator_with_a_backward_has_all_that_can_be_asked_for() -> None:
    evaluation = judged(source(OPERATOR), "backward", "compile-safe", "any-rank")
    assert evaluation.status is Status.VERIFIED, evaluation.findings
    assert evaluation.scope.requested == ("backward", "compile-safe", "any-rank")
    assert "backward, compile-safe, any-rank" in str(evaluation.scope)
    assert not any("opcheck" in words or "any-rank" in words for words in evaluation.scope.skipped)


REFUSED: list[tuple[str, Request, str, str, str]] = [
    ("no autograd", "backward", source(PLAIN), "no-backward", "Training is not supported"),
    (
        "half the gradient", "backward", source(OPERATOR.replace("grad * 2", "grad")),
        "wrong-gradient", "gradient of input 0",
    ),
    ("a pybind function", "compile-safe", source(PLAIN), "graph-break", "register_fake"),
    (
        "a fake of another shape", "compile-safe",
        source(OPERATOR.replace("empty_like(x)", "empty_like(x[:1])")), "opcheck-failed", "own.relu_square",
    ),
    (
        "two dimensions only", "any-rank", source(PLAIN, "x.size(0) * x.size(1)"),
        "shape-not-supported", "dimensions",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "text", "kind", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_is_asked_for_and_missing_is_refused(
    request_: Request, text: str, kind: str, words: str
) -> None:
    evaluation = judged(text, request_)
    assert evaluation.status in (Status.INCORRECT, Status.RUNTIME_ERROR)
    assert evaluation.stage in ("verify", "run")
    assert evaluation.headline is not None
    assert evaluation.headline.kind == kind
    assert words in evaluation.headline.message
    if kind == "graph-break":
        assert evaluation.headline.location is not None
        assert "ext.relu_square" in (evaluation.headline.location.text or "")


def test_the_envelope_survives_what_a_probe_breaks() -> None:
    """One process dies at a batch of 1, and the probes after it still have their say."""
    crash = "x.size(0) == 1 ? *(volatile int*)nullptr : x.numel()"
    evaluation = judged(source(PLAIN, crash), full=True)
    assert evaluation.status is Status.VERIFIED, evaluation.findings
    assert evaluation.envelope is not None
    outcomes = {probe.what: probe.outcome for probe in evaluation.envelope.probes}
    assert outcomes.pop("batch 1") == "crashes"
    assert outcomes["transposed inputs"] == "right"
    assert "batch 1 (crashes)" in str(evaluation.envelope)
    assert {probe.kind for probe in evaluation.envelope.probes} == {
        "layout", "batch", "size", "rank", "dtype",
    }  # fmt: skip
    assert outcomes["float16"] == "raises"
    assert evaluation.envelope.left_out == ()


def test_quick_records_no_envelope_and_says_so() -> None:
    evaluation = judged(source(PLAIN))
    assert evaluation.envelope is None
    assert "envelope" in " ".join(evaluation.scope.skipped)
