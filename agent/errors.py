"""What can go wrong outside the candidate, as one tree.

    AgentError                  exit   one line for the user: what, where, how to mend it
    ├── UsageError              2      bad arguments, unknown names
    │   └── ProblemError        2      a file that is missing or is no reference
    ├── EnvironmentFault        3      no compiler, no GPU, no sandbox, disk, no endpoint configured
    ├── EndpointError           4      the provider failed for good
    ├── BudgetExceeded          124    a limit of the run was reached with nothing verified
    └── Interrupted             130    stopped by the user; resumable
    ReplyError                         the answer holds no usable code: a value for the loop, not an exit

A candidate's fault is never an exception: it is an `Evaluation` with a status and findings.
"""

from typing import ClassVar


class AgentError(Exception):
    """Ends the command with `exit_code` and one line on stderr."""

    exit_code: ClassVar[int] = 1


class UsageError(AgentError):
    exit_code = 2


class ProblemError(UsageError):
    """The PROBLEM argument does not lead to a reference."""


class EnvironmentFault(AgentError):
    exit_code = 3


class EndpointError(AgentError):
    exit_code = 4


class BudgetExceeded(AgentError):
    exit_code = 124


class Interrupted(AgentError):
    exit_code = 130


class ReplyError(Exception):
    """A completion without a usable candidate.

    `kind` is stable (`no-code`, `no-model-new`, `syntax-error`, `cut-off`, `repeated-answer`); the message
    is written for the model that answered.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
