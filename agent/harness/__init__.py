"""What is checked: screen, build, verification against a float64 truth, measurement.

Three processes. The judge (`judge.py`) decides and imports neither torch nor candidate code; the oracle
(`oracle.py`) runs the reference and compares; the worker (`worker.py`) runs the candidate in the sandbox.
"""
