"""Errors that are not the candidate's fault, as one tree.

    AgentError                  exit   one line for the user: what, where, how to fix it
    ├── UsageError              2      bad arguments, unknown names
    │   ├── ProblemError        2      a missing file, or a file that is not a reference
    │   └── UnknownRun          2      an address that leads to no run
    ├── EnvironmentFault        3      no compiler, GPU, sandbox, disk or endpoint; an internal bug
    │   ├── NothingOffered      3      the provider has no kernel for this problem
    │   ├── PassingFault        3      memory, a lost GPU, a killed process: a retry may succeed
    │   │   └── OutOfMemory     3      the GPU has too little free memory for a trial
    │   └── Unprepared          3      nothing can be judged until this failure is fixed
    ├── EndpointError           4      the provider failed for good
    │   └── AwaitingAnswers     75     only answers are missing, and no process waits for them; resumable
    ├── AwaitingGpu             75     answers are here, the GPU that judges them is elsewhere; resumable
    ├── BudgetExceeded          124    a limit of the run was reached with nothing verified
    └── Interrupted             130    stopped by the user; resumable
    ReplyError                         the answer holds no usable code: the loop handles it, no exit
    Rebuilt                            the built program was judged before: the loop asks for another one

A candidate's fault is never an exception: it is an `Evaluation` with a status and findings.
"""

from typing import ClassVar


class AgentError(Exception):
    """An error that ends the command with `exit_code` and one line on stderr."""

    exit_code: ClassVar[int] = 1


class UsageError(AgentError):
    exit_code = 2


class ProblemError(UsageError):
    """A PROBLEM argument that does not lead to a reference."""


class UnknownRun(UsageError):
    """An address that leads to no run."""


class EnvironmentFault(AgentError):
    """A fault of this machine or of our own code, never of the candidate.

    Nothing can be judged here, or a part of ours failed during judging.
    """

    exit_code = 3

    def __init__(self, message: str, details: str = "") -> None:
        """Take the message, and as `details` the failed process's traceback or last output, for the log."""
        super().__init__(message)
        self.details = details


class NothingOffered(EnvironmentFault):
    """Raised by a provider without a model that has no kernel for this problem."""


class PassingFault(EnvironmentFault):
    """A fault of this machine that a retry may avoid: memory, a lost GPU, a killed process.

    A run judges the candidate once more before it asks its model again.
    """


class OutOfMemory(PassingFault):
    """A trial that needs more GPU memory than is free. A retry may succeed after other trials end."""


class Unprepared(EnvironmentFault):
    """An executor that could not be prepared, so that no candidate can be judged.

    The run ends and can be resumed.
    """


def defect(part: str, error: str, details: str = "") -> EnvironmentFault:
    """Return the fault for an exception in our own code.

    `error` is the exception in one line, `details` its traceback.
    """
    said = " ".join(error.split())[:300]
    return EnvironmentFault(
        f"{part} failed: {said}; this is a bug in kernelwright, not in the candidate; -v shows more",
        details,
    )


def passing(fault: EnvironmentFault) -> PassingFault:
    """Return the fault as one that a retry may avoid."""
    return PassingFault(str(fault), fault.details)


class EndpointError(AgentError):
    exit_code = 4


class AwaitingAnswers(EndpointError):
    """Raised while an answer is missing. The run continues when it is resumed."""

    exit_code = 75


class AwaitingGpu(AgentError):
    """Raised while answers wait to be judged on another machine.

    The run continues when it is resumed on that machine.
    """

    exit_code = 75


class BudgetExceeded(AgentError):
    exit_code = 124


class Interrupted(AgentError):
    exit_code = 130


class ReplyError(Exception):
    """A completion without a usable candidate.

    `kind` is stable (`no-code`, `no-model-new`, `syntax-error`, `cut-off`, `repeated-answer`). The message is
    written for the model that answered.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Rebuilt(Exception):  # noqa: N818 - nothing went wrong
    """A candidate whose build gives a program that was judged before (`Build.program`).

    It is not judged again.
    """

    def __init__(self, program: str) -> None:
        super().__init__(program)
        self.program = program
