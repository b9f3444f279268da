"""Matrix products of any layout in float32's accuracy from the tensor cores: operator, kernels.

The public names are in `agent.kernels`.
"""
