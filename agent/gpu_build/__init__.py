"""Extensions for a real GPU, built in seconds: the emulator's slim torch in front of NVIDIA's compiler.

nvcc compiles cuda_sources as the candidate wrote them, g++ compiles cpp_sources against a precompiled header,
each only where it changed; both see a torch that is declared in a few hundred lines and whose operators call
back into Python. Whatever leaves a doubt is left to stock `load_inline`. What was built is not loaded here.
"""

from agent.gpu_build.build import BACKEND, extension
from agent.gpu_build.doubt import Doubt
from agent.gpu_build.gpu import Gpu
from agent.gpu_build.toolchain import GpuToolchain, Unavailable, prepare

__all__ = ["BACKEND", "Doubt", "Gpu", "GpuToolchain", "Unavailable", "extension", "prepare"]
