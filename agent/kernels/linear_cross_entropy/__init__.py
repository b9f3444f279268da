"""Cross entropy of a linear layer: operator and device code. The public name is in `agent.kernels`."""
