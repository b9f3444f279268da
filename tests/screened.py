"""A candidate that passes the screen, with placeholders for Python and CUDA."""

from functools import partial

from agent import screen
from agent.emulator.replay.operators import allowed
from agent.records import Candidate, Finding, LibraryOps

REFERENCE = """
import torch
import torch.nn as nn

batch_size = 16
dim = 4 * 1024


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    x = torch.rand(batch_size, dim)
    return [x]


def get_init_inputs():
    return []
"""
TEMPLATE = '''
import os
import sys
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
{python}

cuda_source = r"""
#include <ATen/cuda/CUDAContext.h>
{cuda}
__global__ void copy_kernel(const float* x, float* y, int64_t n) {{
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = x[i];
}}
"""
extension = load_inline(
    name="copy",
    cpp_sources="torch::Tensor copy(torch::Tensor x);",
    cuda_sources=cuda_source,
    functions=["copy"],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return extension.copy(x)
'''


def found(source: str, library_ops: LibraryOps = "gemm-conv") -> tuple[Finding, ...]:
    permits = partial(allowed, setting=library_ops)
    return screen.check(REFERENCE, Candidate(problem="level1/softmax", source=source), permits)


def with_python(statements: str) -> str:
    return TEMPLATE.format(python=statements, cuda="")


def with_cuda(text: str) -> str:
    return TEMPLATE.format(python="", cuda=text)
