"""Answers that build where real models build, and that name their parameters as they like, by the command."""

import json
from pathlib import Path
from typing import Any

import pytest
from e2e.commands import agent
from e2e.test_eval import SCALE
from mend.candidates import MENDABLE, inside

from agent.store.renaming import with_reference_names

REFERENCE = """
import torch
import torch.nn as nn

rows = 24
columns = 40


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.tanh(x) * self.scale + self.shift


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [columns]
"""
CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

__global__ void affine_kernel(const float* x, const float* a, const float* b, float* y, int n, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = tanhf(x[i]) * a[i % columns] + b[i % columns];
}

torch::Tensor affine(torch::Tensor x, torch::Tensor a, torch::Tensor b) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    affine_kernel<<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), a.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    return y;
}
"""


class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a, b, ext):
        ctx.save_for_backward(x, a)
        return ext.affine(x, a, b)

    @staticmethod
    def backward(ctx, grad):
        x, a = ctx.saved_tensors
        t = torch.tanh(x)
        return grad * a * (1 - t * t), (grad * t).sum(0), grad.sum(0), None


class ModelNew(nn.Module):
    def __init__(self, features):
        super(ModelNew, self).__init__()
        self.second = nn.Parameter(torch.zeros(features))
        self.first = nn.Parameter(torch.ones(features))
        self.ext = load_inline(
            name="affine_here",
            cpp_sources="torch::Tensor affine(torch::Tensor x, torch::Tensor a, torch::Tensor b);",
            cuda_sources=CUDA, functions=["affine"],
        )

    def forward(self, x):
        return Affine.apply(x.contiguous(), self.first, self.second, self.ext)
'''


def evaluated(tmp_path: Path, reference: str, candidate: str, *options: str) -> Any:
    (tmp_path / "reference.py").write_text(reference)
    (tmp_path / "candidate.py").write_text(candidate)
    done = agent(
        "eval", "reference.py", "candidate.py", "--executor", "emulator", "--quick", "--json", *options,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["no cpp_sources", "shared memory of two types"])
def test_a_build_that_fails_in_the_constructor_goes_on_from_its_mend(name: str, tmp_path: Path) -> None:
    kind, source = MENDABLE[name]
    document = evaluated(tmp_path, SCALE, inside(source), "--mend")
    first, last = (attempt["evaluation"] for attempt in document["attempts"])
    assert (first["status"], first["stage"], first["findings"][0]["kind"]) == ("build_error", "build", kind)
    assert first["findings"][0]["message"]
    assert last["status"] == "verified"
    assert last["build"]["seconds"] > 0


def test_other_names_are_assigned_for_gradients_too_and_best_has_the_reference_names(tmp_path: Path) -> None:
    found = evaluated(tmp_path, REFERENCE, CANDIDATE, "--backward")
    assert found["status"] == "verified", found["findings"]
    names = found["scope"]["parameters"]
    assert names == {"scale": "first", "shift": "second"}
    best = evaluated(tmp_path, REFERENCE, with_reference_names(CANDIDATE, names), "--backward")
    assert best["status"] == "verified", best["findings"]
    assert best["scope"]["parameters"] == {}
