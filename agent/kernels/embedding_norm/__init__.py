"""Embedding with its norm: operator and device code. The public names are in `agent.kernels`."""
