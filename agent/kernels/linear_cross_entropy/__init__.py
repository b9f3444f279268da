"""A linear layer and its cross entropy: operator and device code. The public name is in `agent.kernels`."""
