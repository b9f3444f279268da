"""Replay of kernel calls in C++: Python runs and records the first call of a kind (ADR 27).

The kind is all that decides the work of a call: the function, its arguments that are no tensors, and
properties of its tensors. The properties are dtype, device, sizes, strides, alignment, and whether the tensor
wants a gradient.
"""
