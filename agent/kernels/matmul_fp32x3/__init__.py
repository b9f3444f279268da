"""Matrix products of any layout with float32 accuracy on the tensor cores: operator and kernels.

The public names are in `agent.kernels`.
"""
