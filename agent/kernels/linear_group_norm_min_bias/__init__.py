"""Linear, GroupNorm, minimum over the features and a broadcast bias: operator and device code.

The public names are in `agent.kernels`.
"""
