"""The composer on a local checkout of KernelBench: what is composed, verified, and how fast it is."""
