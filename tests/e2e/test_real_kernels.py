"""`agent eval` of answers that launch other kernels at the real sizes than at small ones."""

import json
from pathlib import Path
from typing import Any

from e2e.commands import agent

REFERENCE = """
import torch
import torch.nn as nn

rows = 64
columns = 524288


class Model(nn.Module):
    def forward(self, x):
        return x - x.amax(1, keepdim=True)


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
"""

CANDIDATE = '''
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

source = r"""
#include <torch/extension.h>
#include <cfloat>

namespace {

template <int COLUMNS>
__global__ void below_largest(const float* x, float* y, int given) {
    __shared__ float largest[256];
    const int columns = COLUMNS > 0 ? COLUMNS : given;
    const float* row = x + int64_t(blockIdx.x) * columns;
    float seen = -FLT_MAX;
    const int end = columns - (COLUMNS > 0 ? FORGOTTEN : 0);
    for (int i = threadIdx.x; i < end; i += 256) seen = fmaxf(seen, row[i]);
    largest[threadIdx.x] = seen;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        float* mine = largest + threadIdx.x;
        if (threadIdx.x < half) mine[0] = fmaxf(mine[0], mine[half]);
        __syncthreads();
    }
    y += int64_t(blockIdx.x) * columns;
    for (int i = threadIdx.x; i < columns; i += 256) y[i] = row[i] - largest[0];
}

}  // namespace

torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int rows = x.size(0), columns = x.size(1);
    CHECK
    auto kernel = &below_largest<0>;
    if (FAST && reinterpret_cast<uintptr_t>(x.data_ptr<float>()) % 16 == 0) kernel = &below_largest<524288>;
    kernel<<<rows, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), columns);
    return y;
}
"""
ext = load_inline(
    name="below", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=source, functions=["run"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.run(x)
'''


def evaluated(
    tmp_path: Path, *, fast: str = "columns == 524288", check: str = "", forgotten: int = 0
) -> tuple[int, dict[str, Any]]:
    source = CANDIDATE.replace("FAST", fast).replace("CHECK", check).replace("FORGOTTEN", str(forgotten))
    (tmp_path / "reference.py").write_text(REFERENCE)
    (tmp_path / "candidate.py").write_text(source)
    done = agent(
        "eval", "reference.py", "candidate.py", "--executor", "emulator", "--quick", "--json", cwd=tmp_path
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_kernel_of_one_width_is_judged_at_that_width(tmp_path: Path) -> None:
    code, evaluation = evaluated(tmp_path)
    assert (code, evaluation["status"]) == (0, "verified"), evaluation["findings"]
    scope = evaluation["scope"]
    assert scope["shapes"] == "shrunken"
    assert scope["sizes"]["columns"][1] < 524288
    assert scope["further"] == [{"rows": [64, 2]}]
    assert scope["unexercised"] == []
    # At both sizes, the first instance is called once more beside the second. No input has integers.
    assert evaluation["correctness"]["draws"] == (3 + 1) + (5 + 1)


def test_a_kernel_that_is_wrong_at_one_width_is_incorrect(tmp_path: Path) -> None:
    code, evaluation = evaluated(tmp_path, forgotten=262144)
    assert (code, evaluation["status"]) == (1, "incorrect"), evaluation["findings"]
    assert evaluation["scope"]["sizes"] == {"rows": [64, 2]}


def test_a_kernel_of_the_whole_shape_is_named_in_the_scope(tmp_path: Path) -> None:
    code, evaluation = evaluated(tmp_path, fast="columns == 524288 && rows == 64", forgotten=4096)
    assert (code, evaluation["status"]) == (0, "verified"), evaluation["findings"]
    assert evaluation["scope"]["unexercised"] == ["below_largest<524288>"]
    assert evaluation["scope"]["further"] == []


def test_what_checks_all_but_the_batch_is_judged_with_a_small_batch(tmp_path: Path) -> None:
    code, evaluation = evaluated(tmp_path, check='TORCH_CHECK(columns == 524288, "other columns");')
    assert (code, evaluation["status"]) == (0, "verified"), evaluation["findings"]
    assert evaluation["scope"]["sizes"] == {"rows": [64, 2]}
    assert evaluation["scope"]["unexercised"] == []
