"""CUDA on the CPU: build a candidate's load_inline sources with g++ and run the kernels on fibers."""
