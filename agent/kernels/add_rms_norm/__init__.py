"""RMSNorm of x + residual: operator, module, device code. The public names are in `agent.kernels`."""
