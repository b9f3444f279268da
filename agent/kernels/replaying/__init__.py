"""Calls that are replayed in C++: the first of a kind is Python's, and is recorded meanwhile (ADR 27).

A kind is what decides the work of a call: the function, its arguments that are no tensors, and of each tensor
dtype, device, sizes, strides, alignment, and whether it wants a gradient.
"""
