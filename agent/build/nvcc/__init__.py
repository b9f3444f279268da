"""Check of device code by NVIDIA's compiler: its errors, its warnings, and the resources of each kernel.

nvcc compiles cuda_sources for the GPU with headers that only declare torch's names, which takes as long as a
plain kernel file. The output is checked but never run. The candidate is never blamed for an error that may
come from the headers.
"""

from agent.build.nvcc.check import PTX, Verdict, assembly, command, read
from agent.build.nvcc.tool import MISSING, Nvcc, find

__all__ = ["MISSING", "PTX", "Nvcc", "Verdict", "assembly", "command", "find", "read"]
