"""Search for the kernel behind a wrong output, in a call whose kernels were replayed one by one."""
