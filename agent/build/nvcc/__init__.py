"""Device code read by NVIDIA's compiler: its errors and warnings, and what each kernel takes.

nvcc compiles cuda_sources for the GPU against headers that only declare torch's names, in the time of a
plain kernel file. It is a check: nothing that it makes is run. An error that may come from those headers
is never the candidate's.
"""

from agent.build.nvcc.check import PTX, Verdict, assembly, command, read
from agent.build.nvcc.tool import MISSING, Nvcc, find

__all__ = ["MISSING", "PTX", "Nvcc", "Verdict", "assembly", "command", "find", "read"]
