"""Device code by way of NVIDIA's own compiler: PTX translated to C++ for the emulator's runtime.

`unit` gives the C++ text; the kernels in it run on fibers as those of the rewriting route do, with every
memory access in a known state space and every statement at the candidate's own line. What it does not
know for certain is Untranslated, and the caller takes the other route. It runs no compiler.
"""

from agent.emulator.ptx.syntax import Untranslated
from agent.emulator.ptx.translate import Entry, Unit, symbol_of, unit

__all__ = ["FLAGS", "Entry", "Unit", "Untranslated", "symbol_of", "unit"]

# Beside those of every device unit. A multiplication and an addition are fused only where the PTX says so.
FLAGS = ("-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno", "-fvisibility=hidden", "-w")
