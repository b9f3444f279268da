"""The judge: whether a candidate computes what its reference does, by kernels of its own, and how fast.

Three processes. The judge (`judge/`) decides and imports neither torch nor candidate code; the oracle
(`oracle/`) runs the reference and compares; the worker (`worker/`) runs the candidate in the sandbox.
"""
