"""Replay of kernel calls in C++: Python runs and records the first call of a kind (ADR 27).

The kind is all that decides the work of a call: the function, its arguments that are no tensors, and
properties of its tensors. The properties are dtype, device, sizes, strides, alignment, shared memory, and
whether the tensor wants a gradient. Gradient mode, inference mode and autocast belong to the kind too.
"""
