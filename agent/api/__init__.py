"""The public API, which the command line uses too: judge a candidate, find a kernel, read a run.

Import these names from `agent` itself (`from agent import evaluate, solve, load_problem, Checks`), which
loads this package lazily. Nothing here prints: progress and warnings go to the `progress` argument (see
`agent.api.listening`).
"""

from agent.api.checks import Checks
from agent.api.choices import Budget, Search
from agent.api.judge import Judge, evaluate, load_problem
from agent.api.listening import Listener
from agent.api.runs import Run
from agent.api.service import connect
from agent.api.solving import render_prompt, resume, solve

__all__ = [
    "Budget",
    "Checks",
    "Judge",
    "Listener",
    "Run",
    "Search",
    "connect",
    "evaluate",
    "load_problem",
    "render_prompt",
    "resume",
    "solve",
]
