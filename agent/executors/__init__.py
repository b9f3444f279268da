"""Where candidates are judged: on the GPU here, or on the CPU emulator.

An executor hands a job to a judge process of its own and reads one evaluation back; it adds nothing
to the verdict.
"""

from agent.executors.elsewhere import Elsewhere
from agent.executors.local import Announce, JudgeOptions, LocalExecutor
from agent.executors.once import Once
from agent.executors.select import choose, cuda_obstacle, gpu_name, gpu_names, nvcc

__all__ = [
    "Announce", "Elsewhere", "JudgeOptions", "LocalExecutor", "Once", "choose", "cuda_obstacle", "gpu_name",
    "gpu_names", "nvcc",
]  # fmt: skip
