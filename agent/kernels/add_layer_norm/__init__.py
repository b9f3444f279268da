"""A sum and its LayerNorm: operator, module, device code. The public names are in `agent.kernels`."""
