"""The reference in float64: what right answers may differ by, and the inputs that they are tried on."""

from pathlib import Path

PASSES = Path(__file__).resolve().with_name("passes.cu")
"""The kernels that `passes` runs on a GPU."""
