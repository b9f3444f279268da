"""Evidence that the candidate's own kernels computed the result, and computed it safely."""
