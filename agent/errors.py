"""What can go wrong outside the candidate, as one tree.

    AgentError                  exit   one line for the user: what, where, how to mend it
    ├── UsageError              2      bad arguments, unknown names
    │   ├── ProblemError        2      a file that is missing or is no reference
    │   └── UnknownRun          2      an address that leads to no run
    ├── EnvironmentFault        3      no compiler, no GPU, no sandbox, disk, no endpoint; a defect
    │   ├── NothingOffered      3      the provider has no kernel for this problem
    │   ├── PassingFault        3      memory, a lost GPU, a killed process: another try may go well
    │   │   └── OutOfMemory     3      the GPU has too little free memory for a trial
    │   └── Unprepared          3      nothing can be judged before what failed here is mended
    ├── EndpointError           4      the provider failed for good
    │   └── AwaitingAnswers     75     nothing but answers is missing, and nobody waits for them; resumable
    ├── AwaitingGpu             75     answers are here, the GPU that judges them is elsewhere; resumable
    ├── BudgetExceeded          124    a limit of the run was reached with nothing verified
    └── Interrupted             130    stopped by the user; resumable
    ReplyError                         the answer holds no usable code: a value for the loop, not an exit
    Rebuilt                            the same program was judged before: another one

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


class UnknownRun(UsageError):
    """No run has this address."""


class EnvironmentFault(AgentError):
    """Nothing can be judged here, or a part of ours failed while it judged: never the candidate's fault."""

    exit_code = 3

    def __init__(self, message: str, details: str = "") -> None:
        """`details`: the traceback or the last words of the process that failed, for the log."""
        super().__init__(message)
        self.details = details


class NothingOffered(EnvironmentFault):
    """A provider without a model behind it has no kernel for this problem; it may have one for others."""


class PassingFault(EnvironmentFault):
    """A fault of this machine that may be over at the next try: memory, a lost GPU, a killed process.

    A run judges the candidate once more before it asks its model again.
    """


class OutOfMemory(PassingFault):
    """A trial needs more of the GPU's memory than is free; it may be there once other trials have ended."""


class Unprepared(EnvironmentFault):
    """The executor could not be prepared, so no candidate can be judged: the run ends and can be resumed."""


def defect(part: str, error: str, details: str = "") -> EnvironmentFault:
    """A part of ours that raised; `error` is the exception in one line, `details` its traceback."""
    said = " ".join(error.split())[:300]
    return EnvironmentFault(
        f"{part} failed: {said}; this is a bug in kernelwright, not in the candidate; -v shows more",
        details,
    )


def passing(fault: EnvironmentFault) -> PassingFault:
    """Return the fault as one that may be over at the next try."""
    return PassingFault(str(fault), fault.details)


class EndpointError(AgentError):
    exit_code = 4


class AwaitingAnswers(EndpointError):
    """Whoever answers has not done so yet; the run goes on when it is resumed."""

    exit_code = 75


class AwaitingGpu(AgentError):
    """What was answered is judged on another machine, when the run is resumed there."""

    exit_code = 75


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


class Rebuilt(Exception):  # noqa: N818 - nothing went wrong
    """What a candidate builds is a program that was judged before (`Build.program`): nothing else is done."""

    def __init__(self, program: str) -> None:
        super().__init__(program)
        self.program = program
