"""A linear layer in float32's accuracy from the tensor cores: operator, prepared weights, module, device code.

The public names are in `agent.kernels`.
"""
