"""Translation of PTX from NVIDIA's compiler to C++ for the emulator's runtime.

`unit` returns the C++ text. Its kernels run on fibers, like those of the rewriting route. Every memory
access has a known state space, and every statement keeps the candidate's line. Unsupported PTX raises
Untranslated, and the caller falls back to the rewriting route. This package runs no compiler.
"""

from agent.emulator.ptx.syntax import Untranslated
from agent.emulator.ptx.translate import Entry, Unit, symbol_of, unit

__all__ = ["FLAGS", "Entry", "Unit", "Untranslated", "symbol_of", "unit"]

# Added to the flags of every device unit. Multiply and add are fused only where the PTX fuses them.
FLAGS = ("-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno", "-fvisibility=hidden", "-w")
