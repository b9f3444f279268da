"""Fast builds of extensions for a real GPU: NVIDIA's compiler with the emulator's slim torch headers.

nvcc compiles cuda_sources as the candidate wrote them. g++ compiles cpp_sources with a precompiled header.
Each compiler runs only if its sources changed. Both see slim torch headers of a few hundred lines, whose
operators call back into Python. A request that might build differently falls back to stock `load_inline`.
This package does not load the libraries.
"""

from agent.gpu_build.build import BACKEND, extension
from agent.gpu_build.doubt import Doubt
from agent.gpu_build.gpu import Gpu
from agent.gpu_build.toolchain import GpuToolchain, Unavailable, prepare

__all__ = ["BACKEND", "Doubt", "Gpu", "GpuToolchain", "Unavailable", "extension", "prepare"]
