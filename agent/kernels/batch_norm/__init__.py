"""BatchNorm in evaluation: operator, module, device code. The public names are in `agent.kernels`."""
