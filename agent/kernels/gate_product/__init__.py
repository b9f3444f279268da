"""SwiGLU and GeGLU: operator, module and device code. The public names are in `agent.kernels`."""
