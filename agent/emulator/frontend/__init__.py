"""Analysis of CUDA C++ source text, and its rewriting for g++."""
