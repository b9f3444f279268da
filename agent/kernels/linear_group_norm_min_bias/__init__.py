"""Linear, GroupNorm, the smallest value of each row and a bias spread over it: operator, device code.

The public names are in `agent.kernels`.
"""
