"""Diagnosis of failed builds: named causes from the messages of compilers, linkers and pybind11."""
