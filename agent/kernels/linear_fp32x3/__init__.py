"""A linear layer in float32's accuracy from the tensor cores: operator, prepared weights, module, kernels.

The public names are in `agent.kernels`.
"""
