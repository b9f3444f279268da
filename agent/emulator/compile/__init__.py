"""Compilation of one load_inline request to a shared library: compilers, their messages and caches."""
