"""GroupNorm, with an activation and a residual: operator, module, device code.

The public names are in `agent.kernels`.
"""
