"""Where a wrong output comes from, in an answer whose kernels were repeated one by one."""
