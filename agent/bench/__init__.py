"""Many problems, one protocol: `agent bench` and its report.

Contract: a bench is a folder with what was asked for (`bench.json`) and the runs that were made for it. What
has come of it is read from those runs and from nothing else, so a bench that was killed goes on where it was,
and a report can be made at any time. Each run is an ordinary one: `agent show` and `agent view` open it.
"""

from agent.bench.folder import Asked, Bench, create, open_bench
from agent.bench.outcome import Outcome, outcomes
from agent.bench.suite import Case, cases

__all__ = ["Asked", "Bench", "Case", "Outcome", "cases", "create", "open_bench", "outcomes"]
