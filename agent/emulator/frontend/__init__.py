"""CUDA C++ as text: what a request holds, and the rewriting for g++."""
