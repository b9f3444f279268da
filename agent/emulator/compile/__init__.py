"""Compilation of a request to a library: compilers, their messages and caches."""
