"""Linear layer with float32 accuracy on the tensor cores: operator, prepared weights, module and kernels.

The public names are in `agent.kernels`.
"""
