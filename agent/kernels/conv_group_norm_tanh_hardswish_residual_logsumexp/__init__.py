"""Convolution, GroupNorm, tanh, hardswish, a residual of the convolution, and logsumexp over the channels.

Operator, module, device code. The public names are in `agent.kernels`.
"""
