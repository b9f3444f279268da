"""The reference in float64: the ground truth, the tolerance of outputs, and the families of inputs."""

from pathlib import Path

PASSES = Path(__file__).resolve().with_name("passes.cu")
"""Source of the kernels that `passes` runs on a GPU."""
