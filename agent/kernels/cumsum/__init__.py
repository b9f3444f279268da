"""Cumulative sums: operator and device code. The public name is in `agent.kernels`."""
