"""`agent eval` where no machine here holds the tensors: an index that only the real size overflows."""

import json
from pathlib import Path
from typing import Any

import pytest
from e2e.commands import agent

REFERENCE = """
import torch
import torch.nn as nn

rows = 3
columns = 1 << 30


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return x * self.scale


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return [columns]
"""

CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>

__global__ void scaled(const float* x, const float* scale, float* y, int64_t n, int columns) {
    INDEX
    if (i < n) y[i] = x[i] * scale[i % columns];
}

torch::Tensor run(torch::Tensor x, torch::Tensor scale) {
    auto y = torch::empty_like(x);
    const int64_t n = x.numel();
    scaled<<<(n + 255) / 256, 256>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), n, x.size(1));
    return y;
}
"""
ext = load_inline(
    name="scaled", cpp_sources="torch::Tensor run(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=source, functions=["run"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(features))

    def forward(self, x):
        FORWARD
'''
NARROW = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
WIDE = "const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;"
PLAIN = "return ext.run(x, self.scale)"
# A torch operator on a large tensor is not computed there; its shape goes on.
WITH_TORCH = "return ext.run(x.clone(), self.scale.clone())"
READS = "return ext.run(x, self.scale) if x[0, 0].item() != -1 else x"


def evaluated(tmp_path: Path, index: str, forward: str) -> tuple[int, dict[str, Any]]:
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "candidate.py").write_text(CANDIDATE.replace("INDEX", index).replace("FORWARD", forward))
    done = agent(
        "eval", "reference.py", "candidate.py", "--executor", "emulator", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_an_int_index_is_refused_with_its_line(tmp_path: Path) -> None:
    code, evaluation = evaluated(tmp_path, NARROW, PLAIN)
    assert (code, evaluation["status"]) == (1, "runtime_error")
    assert evaluation["scope"]["shapes"] == "full"
    [finding] = [found for found in evaluation["findings"] if found["severity"] == "error"]
    assert finding["kind"] == "index-overflow"
    assert "element -2147483648 of a float32 tensor [3, 1073741824]" in finding["message"]
    place = finding["location"]
    assert (place["kernel"], place["block"], place["thread"]) == ("scaled", [1 << 23, 0, 0], [0, 0, 0])
    assert place["text"] == "if (i < n) y[i] = x[i] * scale[i % columns];"


@pytest.mark.parametrize(
    ("forward", "named"),
    [
        (PLAIN, []),
        (WITH_TORCH, []),
        (
            READS,
            [
                "the kernels that the real shape launches: forward reads values on the host (aten._local_",
                "addresses at the real shape: forward reads values on the host (aten._local_scalar_dense",
            ],
        ),
    ],
    ids=["plain", "with torch operators", "reads a value"],
)
def test_a_wide_index_is_verified(
    tmp_path: Path, forward: str, named: list[str], request: pytest.FixtureRequest
) -> None:
    if forward is not WITH_TORCH and not request.config.getoption("--all-kernels"):
        pytest.skip("one case stands for all in every run; --all-kernels runs this one too")
    code, evaluation = evaluated(tmp_path, WIDE, forward)
    assert (code, evaluation["status"]) == (0, "verified"), evaluation["findings"]
    skipped = [reason for reason in evaluation["scope"]["skipped"] if "real shape" in reason]
    assert len(skipped) == len(named)
    assert all(reason.startswith(start) for reason, start in zip(skipped, named, strict=True))
