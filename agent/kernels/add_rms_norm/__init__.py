"""A sum and its RMSNorm: operator, module, device code. The public names are in `agent.kernels`."""
