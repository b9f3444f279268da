"""Rotary position embedding: operator and device code. The public names are in `agent.kernels`."""
