"""The judge: decides whether a candidate computes its reference's function by own kernels, and how fast.

Judging takes three processes. The judge (`judge/`) decides and imports neither torch nor candidate code. The
oracle (`oracle/`) runs the reference and compares outputs. The worker (`worker/`) runs the candidate in the
sandbox.
"""
