"""Why a build failed: what compilers, linkers and pybind11 say, as named causes."""
