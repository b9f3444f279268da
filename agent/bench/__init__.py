"""Benchmarks over many problems with one protocol: `agent bench` and its report.

A bench is a folder with its settings (`bench.json`) and the runs made for it. Results are read only from
those runs. A bench that was killed can therefore continue, and a report can be made at any time. Each run is
an ordinary one that `agent show` and `agent view` open.
"""

from agent.bench.folder import Asked, Bench, create, open_bench
from agent.bench.outcome import Outcome, outcomes
from agent.bench.suite import Case, cases

__all__ = ["Asked", "Bench", "Case", "Outcome", "cases", "create", "open_bench", "outcomes"]
