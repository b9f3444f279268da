"""The reference in float64: tolerances of right answers, and the inputs on which they are tested."""

from pathlib import Path

PASSES = Path(__file__).resolve().with_name("passes.cu")
"""Source of the kernels that `passes` runs on a GPU."""
