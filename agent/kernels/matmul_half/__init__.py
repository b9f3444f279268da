"""Matrix products of float16 and bfloat16 with sums in float32: operator and device code.

The public name is in `agent.kernels`.
"""
