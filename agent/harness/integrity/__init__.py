"""Whether the candidate's own kernels computed the result, and safely."""
