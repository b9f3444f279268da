"""Environment for `verifiers`: CUDA kernels for PyTorch references, rewarded by a judge service."""

from .environment import KernelEnvironment
from .harness import OneAnswer
from .taskset import KernelTaskset

__all__ = ["KernelEnvironment", "KernelTaskset", "OneAnswer"]
