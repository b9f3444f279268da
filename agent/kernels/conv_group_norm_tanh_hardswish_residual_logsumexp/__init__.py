"""Convolution, GroupNorm, tanh, hardswish, the convolution added back, logsumexp over the channels.

Operator, module, device code. The public names are in `agent.kernels`.
"""
