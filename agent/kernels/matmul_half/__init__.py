"""Matrix products of float16 and bfloat16 with float32 sums: operator and device code.

The public name is in `agent.kernels`.
"""
