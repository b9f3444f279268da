"""logsumexp: operator, device code. The public name is in `agent.kernels`."""
