"""`--unchecked`: what only the sanitizer sees goes unseen, and the verdict says that nobody looked."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from e2e import commands

from agent import config, executors
from agent.api import Checks, Listener
from agent.api.judge import local_executor
from agent.errors import UsageError

REFERENCE = """
import torch
N = 1000
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(N)]
def get_init_inputs():
    return []
"""
# The guard comes after the read: 24 threads read behind the end, and what they read is not used.
CANDIDATE = '''
import torch
from torch.utils.cpp_extension import load_inline
source = r"""
#include <torch/extension.h>
__global__ void twice_kernel(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const volatile float v = x[i];
    if (i < n) y[i] = 2 * v;
}
torch::Tensor twice(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int n = x.numel();
    twice_kernel<<<n / 128 + 1, 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
ops = load_inline("ops", "torch::Tensor twice(torch::Tensor x);", source, functions=["twice"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ops.twice(x)
'''


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unchecked")
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "candidate.py").write_text(CANDIDATE)
    return folder


def evaluated(place: Path, *options: str) -> dict[str, Any]:
    judged = ("eval", "reference.py", "candidate.py", "--executor", "emulator", "--json")
    document: dict[str, Any] = json.loads(commands.agent(*judged, *options, cwd=place).stdout)
    return document


def test_the_sanitizer_is_on_unless_it_is_switched_off(place: Path) -> None:
    checked = evaluated(place)
    assert checked["status"] == "runtime_error"
    assert checked["findings"][0]["kind"] == "global-out-of-bounds-read"
    assert "default-stream" in [found["kind"] for found in checked["findings"]]
    assert not any("sanitizer" in words for words in checked["scope"]["skipped"])
    unchecked = evaluated(place, "--unchecked")
    assert unchecked["status"] == "verified"
    assert unchecked["findings"] == []
    assert any("the sanitizer (--unchecked)" in words for words in unchecked["scope"]["skipped"])


def test_there_is_nothing_to_switch_off_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "choose", lambda wanted: "cuda")
    settings = config.load({"unchecked": True}).settings
    with pytest.raises(UsageError, match="--unchecked applies only to the emulator"):
        local_executor(settings, SimpleNamespace(), Checks(), Listener())  # type: ignore[arg-type]
