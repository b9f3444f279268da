"""Kernelwright turns a PyTorch reference into a verified, hand-written CUDA kernel.

from agent import Checks, evaluate, load_problem, solve

Importing this package loads none of its modules. Each public name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.api import Budget as Budget
    from agent.api import Checks as Checks
    from agent.api import Judge as Judge
    from agent.api import Listener as Listener
    from agent.api import Run as Run
    from agent.api import Search as Search
    from agent.api import connect as connect
    from agent.api import evaluate as evaluate
    from agent.api import load_problem as load_problem
    from agent.api import render_prompt as render_prompt
    from agent.api import resume as resume
    from agent.api import solve as solve
    from agent.errors import AgentError as AgentError
    from agent.records import Attempt as Attempt
    from agent.records import Candidate as Candidate
    from agent.records import Evaluation as Evaluation
    from agent.records import Finding as Finding
    from agent.records import Problem as Problem
    from agent.records import Scope as Scope
    from agent.records import Status as Status

__version__ = "0.1.0"

_MODULES = {
    "agent.api": (
        "Budget", "Checks", "Judge", "Listener", "Run", "Search", "connect", "evaluate", "load_problem",
        "render_prompt", "resume", "solve",
    ),
    "agent.errors": ("AgentError",),
    "agent.records": ("Attempt", "Candidate", "Evaluation", "Finding", "Problem", "Scope", "Status"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = ["__version__", *_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"agent has no {name!r}; it has {', '.join(_MODULE_OF)}")
    found = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found
