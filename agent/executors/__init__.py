"""Executors, which judge candidates on this machine's GPU or on the CPU emulator.

An executor hands a job to its own judge process and reads one evaluation back. It never changes the verdict.
"""

from agent.executors.elsewhere import Elsewhere
from agent.executors.local import Announce, JudgeOptions, LocalExecutor
from agent.executors.once import Once
from agent.executors.select import choose, cuda_obstacle, gpu_name, gpu_names, nvcc

__all__ = [
    "Announce", "Elsewhere", "JudgeOptions", "LocalExecutor", "Once", "choose", "cuda_obstacle", "gpu_name",
    "gpu_names", "nvcc",
]  # fmt: skip
