"""CUDA on the CPU: builds a candidate's load_inline sources with g++ and runs their kernels on fibers."""
