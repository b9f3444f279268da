"""The shipped kernels. So far only their sources, which the catalogue gives as answers (`sources/`)."""
