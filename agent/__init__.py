"""Kernelwright: turns a PyTorch reference into a verified, hand-written CUDA kernel."""

__version__ = "0.1.0"
