"""BatchNorm in evaluation mode: operator, module and device code.

The public names are in `agent.kernels`.
"""
